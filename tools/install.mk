# SPDX-License-Identifier: GPL-2.0
# Where `make install` puts things, below DESTDIR.
PREFIX		?= /usr/local
SBINDIR		?= $(PREFIX)/sbin
LIBDIR		?= $(PREFIX)/lib
INCLUDEDIR	?= $(PREFIX)/include
DATADIR		?= $(PREFIX)/share
MANDIR		?= $(DATADIR)/man
UDEV_RULES	?= /usr/lib/udev/rules.d

# Each Makefile runs in a folder of its own, where a relative path would mean another folder.
ifneq ($(DESTDIR),)
$(if $(filter /%,$(firstword $(DESTDIR))),,$(error DESTDIR='$(DESTDIR)' is not absolute))
endif
