# SPDX-License-Identifier: GPL-2.0
#
# The end of the Makefile of an LLD outside smq's tree:
#
#	obj-m := my_lld.o
#	include /usr/local/lib/smq/lld.mk
#
# `make`, `make modules_install` and `make clean` then work as usual, for the running kernel or for
# that of KDIR. `make install-dev` in smq's tree installs this file, the headers, and the list of
# smq's exported symbols for each kernel that smq was built for. Where dkms has installed smq,
# dkms.conf keeps that list.
smq-dir := $(abspath $(dir $(lastword $(MAKEFILE_LIST))))
smq-release-of = $(shell sed -n 's/^.define UTS_RELEASE "\(.*\)"/\1/p' \
	'$(1)/include/generated/utsrelease.h' 2>/dev/null)
# dkms keeps a link kernel-RELEASE-ARCH to VERSION/RELEASE/ARCH while smq is installed for a kernel.
smq-dkms ?= /var/lib/dkms/smq
smq-symbols-of = $(firstword $(wildcard $(smq-dir)/$(1)/Module.symvers \
	$(smq-dkms)/kernel-$(1)-*/../../$(1).symvers))

ifneq ($(KERNELRELEASE),)

# The kernel's build reads this Makefile twice: to compile, and to link.
include $(smq-dir)/include/smq/probe.mk
subdir-ccflags-y += -I$(smq-dir)/include
KBUILD_EXTRA_SYMBOLS += $(call smq-symbols-of,$(call smq-release-of,$(objtree)))

else

KDIR ?= /lib/modules/$(shell uname -r)/build
smq-release := $(call smq-release-of,$(KDIR))
# Type information (BTF) needs the kernel's vmlinux, and signing needs the kernel's key. Header
# packages have neither.
smq-make = $(MAKE) --no-print-directory -C '$(KDIR)' M='$(CURDIR)' \
	CONFIG_DEBUG_INFO_BTF_MODULES= CONFIG_MODULE_SIG_ALL=

.PHONY: modules modules_install clean smq-need
.DEFAULT_GOAL := modules

modules: smq-need
	@$(smq-make) modules

modules_install: modules
	@$(smq-make) modules_install
	@depmod -b '$(or $(INSTALL_MOD_PATH),/)' '$(smq-release)'

clean:
	@$(smq-make) clean

smq-need:
	@if [ -z '$(smq-release)' ]; then \
		echo "no kernel headers in KDIR='$(KDIR)'" >&2; \
		exit 2; \
	fi
	@if [ -z '$(call smq-symbols-of,$(smq-release))' ]; then \
		echo "smq was not installed for $(smq-release): in its source," \
			"make install-dev KDIR='$(KDIR)'" >&2; \
		exit 2; \
	fi

endif
