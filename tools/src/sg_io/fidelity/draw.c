// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>

#include "fidelity.h"

#define LEFT	70
#define WIDTH	800
#define HEIGHT	200
#define GAP	60
#define LEAST	0.001	/* the least height of a panel, so that it is not 0 */

static void label(FILE *out, int x, int y, const char *anchor, const char *text)
{
	fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text);
}

/* A panel from @top on, with the values up to @most. */
static void frame(FILE *out, int top, const char *title, double most, const char *unit)
{
	char text[64];

	fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
		"stroke=\"#888\"/>\n", LEFT, top, WIDTH, HEIGHT);
	label(out, LEFT, top - 8, "start", title);
	snprintf(text, sizeof(text), "%.4g%s", most, unit);
	label(out, LEFT - 6, top + 10, "end", text);
	label(out, LEFT - 6, top + HEIGHT, "end", "0");
}

static void line(FILE *out, int top, const double *v, double most, const char *color)
{
	unsigned int i;

	fputs("<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"", out);
	fprintf(out, "%s\" points=\"", color);
	for (i = 0; i < CURVE; i++)
		fprintf(out, "%.1f,%.1f ", LEFT + (i + 0.5) * WIDTH / CURVE,
			top + HEIGHT - v[i] * HEIGHT / most);
	fputs("\"/>\n", out);
}

static double greatest(const double *v, double most)
{
	unsigned int i;

	for (i = 0; i < CURVE; i++)
		most = v[i] > most ? v[i] : most;
	return most;
}

bool fidelity_draw(const struct fidelity *f, const char *path)
{
	int top = 40, panels = f->loads ? 2 : 1;
	FILE *out = fopen(path, "we");
	double late[CURVE], most;
	char text[64];
	unsigned int i;
	bool ok;

	if (!out)
		return false;
	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n", LEFT + WIDTH + 20,
		top + panels * (HEIGHT + GAP));
	fputs("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n", out);
	if (f->loads) {
		most = greatest(f->reload.curve, greatest(f->load.curve, LEAST));
		frame(out, top, "Commands in flight: original (grey), replay (blue)", most, "");
		line(out, top, f->load.curve, most, "#999");
		line(out, top, f->reload.curve, most, "#06c");
		top += HEIGHT + GAP;
	}
	for (i = 0; i < CURVE; i++)
		late[i] = f->late_curve[i] / 1e3;
	most = greatest(late, LEAST);
	frame(out, top, "How late commands were issued, the latest of each piece of time", most,
	      " us");
	line(out, top, late, most, "#c30");
	label(out, LEFT, top + HEIGHT + 16, "start", "0 s");
	snprintf(text, sizeof(text), "%.4g s", f->span / 1e9);
	label(out, LEFT + WIDTH, top + HEIGHT + 16, "end", text);
	fputs("</svg>\n", out);
	ok = !ferror(out);
	return !fclose(out) && ok;
}
