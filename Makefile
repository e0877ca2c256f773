# SPDX-License-Identifier: GPL-2.0
#
# For people; the kernel's build reads Kbuild. `make help` says what there is.

RUNNING := /lib/modules/$(shell uname -r)/build
NEWEST  := $(lastword $(shell ls -d /lib/modules/*/build 2>/dev/null | sort -V))
KDIR    ?= $(if $(wildcard $(RUNNING)/.),$(RUNNING),$(NEWEST))
KERNELS ?= 6.1 6.12 7.2 7.3
JOBS    ?= $(shell nproc)
export JOBS
include tools/install.mk

release := $(shell sed -n 's/^.define UTS_RELEASE "\(.*\)"/\1/p' \
	     '$(KDIR)/include/generated/utsrelease.h' 2>/dev/null)
module-args = $(if $(SMQ_TESTS),SMQ_TESTS=$(SMQ_TESTS))

# Each tool builds in its own folder and lands in tools/. The first five are for users.
user-dirs := tools/libsmq $(addprefix tools/src/,sg_io fc_check fio_smq smqtop)
tool-dirs := $(patsubst %/Makefile,%,$(wildcard tools/src/*/Makefile tools/libsmq/Makefile tools/bench/Makefile))

version = $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)
release-name = smq-$(version)
dist = build/dist/$(release-name).tar.xz
# What .gitignore names, for a tree without git.
built := ./build ./bench-report ./tools/sg_io ./tools/smqtop '*.o' '*.a' '*.so' '*.so.*' '*.ko' '*.mod' '*.mod.c' \
	'*.cmd' __pycache__ '*.egg-info' .pytest_cache .ruff_cache

.PHONY: all modules tools kernels fio-headers build-all modules_install install install-dev uninstall \
	dist deb rpm clean check check-sanitize demo lint bench bench-quick help need-compiler need-build \
	need-headers need-own $(tool-dirs)

all: modules tools

# One message for whatever is missing, before anything is built.
need-compiler:
	@if ! command -v gcc >/dev/null; then \
		echo "there is no gcc; as root: $$(tools/deps line build)" >&2; \
		exit 2; \
	fi

need-build: need-compiler
	@if ! printf '#include <%s>\n' stdio.h blkid/blkid.h liburing.h json-c/json.h scsi/sg_lib.h tracefs.h | \
	     gcc -E $$(pkg-config --cflags libtracefs 2>/dev/null) - >/dev/null 2>&1; \
	then \
		echo "a library of the tools is missing; as root: $$(tools/deps line build)" >&2; \
		exit 2; \
	fi

need-headers:
	@if [ -z '$(release)' ]; then \
		echo "no kernel headers in KDIR='$(KDIR)'; as root: $$(tools/deps line build)" >&2; \
		exit 2; \
	fi

# A copied checkout's tools depend on the files of the one they were built in.
need-own:
	@if [ "$$(cat build/tools/.top 2>/dev/null)" != '$(CURDIR)' ]; then \
		rm -rf build/tools && mkdir -p build/tools && \
		echo '$(CURDIR)' >build/tools/.top; \
	fi

modules: need-compiler need-headers
	@tools/build-modules '$(KDIR)' $(module-args)

tools: $(tool-dirs)

$(tool-dirs): need-build need-own
	@$(MAKE) --no-print-directory -C $@

# They link the library, and make it where that has not been done.
tools/src/sg_io tools/src/fio_smq tools/src/smqtop: tools/libsmq

kernels:
	@tools/kernels prepare $(KERNELS)

# Where there is no source package of fio, fio's engine is not built, and all else is.
fio-headers:
	@tools/fio-headers prepare || true

# The tools behind them: their own make looks for fio's headers when it begins.
build-all: need-build kernels fio-headers
	@$(MAKE) --no-print-directory tools
	@for kernel in $(KERNELS); do \
		tools/build-modules --strict --kernel $$kernel SMQ_TESTS=1 || exit; \
	done

modules_install: modules
	@$(MAKE) --no-print-directory -C '$(KDIR)' M='$(CURDIR)/build/$(release)' \
		$(module-args) CONFIG_MODULE_SIG_ALL= modules_install
	@depmod -b '$(or $(INSTALL_MOD_PATH),/)' '$(release)'

# They lie below one folder as they lie here, so that the links between them lead somewhere.
pages = $(wildcard [A-Z]*.md docs/*.md docs/*.svg drivers/*/README.md target-configs/README.md) $(shell find docs/boot -type f)

install: $(user-dirs)
	@for dir in $(user-dirs); do \
		$(MAKE) --no-print-directory -C $$dir install || exit; \
	done
	@install -D -m 644 -t '$(DESTDIR)$(UDEV_RULES)' drivers/sg/60-smqsg.rules
	@install -D -m 755 -t '$(DESTDIR)$(SBINDIR)' tools/targetcli-smq
	@for page in $(wildcard man/*.[1-9]); do \
		install -D -m 644 -t "$(DESTDIR)$(MANDIR)/man$${page##*.}" $$page || exit; \
	done
	@install -D -m 644 -t '$(DESTDIR)$(DATADIR)/smq/target-configs' target-configs/*.json target-configs/README.md
	@install -D -m 755 -t '$(DESTDIR)$(DATADIR)/smq/target-configs' target-configs/soft-fc
	@for page in $(pages); do \
		install -D -m 644 "$$page" '$(DESTDIR)$(DATADIR)'/doc/smq-tools/"$$page" || exit; \
	done
	@$(if $(DESTDIR),:,ldconfig || echo 'libsmq.so is new: run ldconfig as root' >&2)

# Removes the files that install and install-dev would write, and the folders that are smq's alone.
# Older versions of the library, and an engine for a fio that has changed, are not among the former.
uninstall:
	@files=$$(mktemp -d) && trap 'rm -rf "$$files"' EXIT && \
	$(MAKE) -s -o modules install install-dev DESTDIR="$$files" >/dev/null && \
	(cd "$$files" && find . ! -type d -print0) | (cd '$(or $(DESTDIR),/)' && xargs -0r rm -f --) && \
	rm -rf '$(dev)' '$(DESTDIR)$(DATADIR)/smq' '$(DESTDIR)$(DATADIR)/doc/smq-tools' && \
	rm -f '$(DESTDIR)$(LIBDIR)/fio/fio-smq.so' '$(DESTDIR)$(LIBDIR)'/libsmq.so.*
	@$(if $(DESTDIR),:,ldconfig || true)

# The kernel's program that makes manual pages of the headers; newer headers packages lack it.
KERNEL_DOC ?= $(firstword $(wildcard $(KDIR)/scripts/kernel-doc /usr/lib/linux-kbuild-*/scripts/kernel-doc))

# What an LLD outside this tree is built against; the symbols are those of every kernel that smq
# was built for. A header that is gone must not stay there.
dev = $(DESTDIR)$(PREFIX)/lib/smq
install-dev: modules
	@rm -rf '$(dev)/include'
	@install -D -m 644 -t '$(dev)/include/smq' include/smq/*
	@install -D -m 644 -t '$(dev)' include/lld.mk
	@$(if $(KERNEL_DOC),tools/man9 '$(KERNEL_DOC)' '$(DESTDIR)$(MANDIR)/man9', \
		echo 'no manual pages of the headers: KERNEL_DOC= names no scripts/kernel-doc' >&2)
	@for symbols in $(wildcard build/*/Module.symvers); do \
		to=$${symbols#build/}; \
		install -D -m 644 "$$symbols" '$(dev)'/"$$to" || exit; \
	done

# The tarball of the last commit: its names, times and owners are those of the commit, so the same
# commit gives the same bytes. Without a repository, as in an unpacked tarball: of the files that are
# here and were not built.
dist:
	@mkdir -p build/dist
	@tar=$$(mktemp -d -p build/dist) && trap 'rm -rf "$$tar"' EXIT && \
	if [ -e .git ]; then \
		git diff --quiet HEAD || echo 'make dist: leaves out changes that are not committed' >&2; \
		git archive --prefix='$(release-name)/' --output="$$tar/tar" HEAD; \
	else \
		tar -c --sort=name --owner=0 --group=0 --numeric-owner --transform='s,^\.,$(release-name),' \
			$(addprefix --exclude=,$(built)) -f "$$tar/tar" .; \
	fi && xz -T1 "$$tar/tar" && mv "$$tar/tar.xz" '$(dist)'
	@echo '$(dist)'

# The packages of Debian and of rpm, from that tarball.
deb: dist
	@tools/packages deb '$(dist)'

rpm: dist
	@tools/packages rpm '$(dist)'

clean:
	@rm -rf build
	@for dir in $(tool-dirs); do \
		$(MAKE) --no-print-directory -C $$dir clean || exit; \
	done

check:
	@tools/check

check-sanitize:
	@tools/check --only sanitize

demo:
	@tools/demo

lint:
	@tools/lint

# The load from inside the kernel is a module of the tests.
bench: SMQ_TESTS := 1
bench: modules tools
	@LEGACY_KERNEL='$(LEGACY_KERNEL)' LEGACY_MODULES='$(LEGACY_MODULES)' tools/bench/run

bench-quick: modules tools
	@tools/bench/quick

help:
	@echo 'make                 modules for KDIR into build/RELEASE/, and the tools'
	@echo 'make modules         modules only; SMQ_TESTS=1 adds those of the tests'
	@echo 'make tools           user-space tools only, into tools/ and build/tools/'
	@echo 'make fio-headers     fetches what the engine for fio is built with: docs/fio.md'
	@echo 'make kernels         prepares the kernels $(KERNELS) for builds and VMs'
	@echo 'make build-all       modules for all of them, any warning is an error; tools'
	@echo 'make modules_install installs modules (INSTALL_MOD_PATH) and runs depmod'
	@echo 'make install         installs the tools, libsmq and rules for udev (PREFIX, LIBDIR, DESTDIR, ...:'
	@echo '                     tools/install.mk)'
	@echo 'make install-dev     installs what LLDs outside this tree are built against (the same)'
	@echo 'make uninstall       removes what these two have installed (the same)'
	@echo 'make dist            the tarball of the last commit, into build/dist/'
	@echo 'make deb, make rpm   the packages, from that tarball, into build/deb/ or build/rpm/'
	@echo 'make check           builds, linters and tests, here and in VMs'
	@echo 'make check-sanitize  those that make sense under KASAN, lockdep and the like'
	@echo 'make demo            builds, boots and shows everything'
	@echo 'make lint            kernel, shell and Python linters, spelling'
	@echo 'make bench           the measurements, into bench-report/, on an idle machine;'
	@echo '                     LEGACY_KERNEL=bzImage LEGACY_MODULES=dir adds the legacy path'
	@echo 'make bench-quick     instructions, allocations, cache lines, judged by bounds'
	@echo 'make clean           removes what was built'
	@echo
	@echo 'KDIR=$(KDIR) ($(or $(release),no headers there))'
