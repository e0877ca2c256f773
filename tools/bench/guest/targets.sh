# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by devices.sh: rows of LIO's backstores as local disks. The rows of smq_lio have the
# same settings as the rows of LIO's own tcm_loop.

TARGET=/sys/kernel/config/target
TARGET_FILE=/run/bench-target.img

# Removes the directories that the previous row made in configfs.
target_gone() {
	local path
	for path in "$TARGET"/{loopback,smq}/naa.*/tpgt_1/lun/lun_*/backstore; do
		[[ ! -L $path ]] || rm "$path" || die "$path cannot be removed"
	done
	for path in "$TARGET"/{loopback,smq}/naa.*{/tpgt_1/lun/lun_*,/tpgt_1,} \
		"$TARGET"/core/*/bench* "$TARGET"/core/{rd_mcp,fileio,iblock}_0; do
		[[ ! -d $path ]] || rmdir "$path" || die "$path cannot be removed"
	done
	rm -f "$TARGET_FILE"
}

# backstore rd_mcp|fileio|iblock NAME: makes a backstore that reports itself as non-rotating
backstore() {
	local store=$TARGET/core/${1}_0/$2 control
	mkdir -p "$store" || die "LIO: no backstore $1"
	case $1 in
	rd_mcp)
		control=rd_pages=$(( SIZE_MB * 256 ))
		;;
	fileio)
		truncate -s "${SIZE_MB}M" "$TARGET_FILE"
		control=fd_dev_name=$TARGET_FILE,fd_dev_size=$(( SIZE_MB << 20 ))
		;;
	iblock)
		control=udev_path=/dev/nullb0
		;;
	esac
	echo "$control" > "$store/control" || die "LIO: $1: $control refused"
	echo 1 > "$store/enable" || die "LIO: $1 cannot be enabled"
	# The VPD page that reports is_nonrot exists only if the backstore has a serial number.
	echo "$2" > "$store/wwn/vpd_unit_serial" || die "LIO: $1: serial number refused"
	echo 1 > "$store/attrib/is_nonrot" || die "LIO: $1: is_nonrot=1 refused"
	note "param $ROW backstore $1 $control is_nonrot=1"
}

# target_up tcm_loop|smq_lio rd_mcp|fileio|iblock: makes a target with LUNS LUNs. With rd_mcp each
# LUN has its own RAM disk; with the other backstores there can be only one LUN
target_up() {
	local module=$1 kind=$2 fabric port driver n
	[[ $kind == rd_mcp ]] || (( LUNS == 1 )) || die "$ROW: one LUN, not $LUNS"
	case $module in
	tcm_loop)
		fabric=loopback driver=tcm_loopback
		;;
	smq_lio)
		fabric=smq driver=smq_lio
		;;
	esac
	scsi_drivers
	[[ $kind != iblock ]] || once "$ROW" null_blk queue_mode=2 submit_queues="$(nproc)" irqmode=0 \
		bs=512 gb=1 nr_devices=1 hw_queue_depth=128
	modprobe target_core_mod || die "modprobe target_core_mod failed"	# loads the backstores
	[[ -d $TARGET ]] || mount -t configfs configfs /sys/kernel/config ||
		die "configfs cannot be mounted"
	once "$ROW" "$module"
	port=$TARGET/$fabric/naa.5001405000000001/tpgt_1
	mkdir -p "$port" || die "$module: no port can be made"
	echo naa.5001405000000002 > "$port/nexus" || die "$module: no nexus"
	for (( n = 0; n < LUNS; n++ )); do
		backstore "$kind" "bench$n"
		mkdir "$port/lun/lun_$n" || die "$module: no LUN $n"
		ln -s "$TARGET/core/${kind}_0/bench$n" "$port/lun/lun_$n/backstore" ||
			die "$module: no link to LUN $n"
	done
	wait_scsi "$driver" "$LUNS"
}

row_tcm_loop_rd() {
	target_up tcm_loop rd_mcp
}

row_smq_lio_rd() {
	target_up smq_lio rd_mcp
}

row_tcm_loop_file() {
	target_up tcm_loop fileio
}

row_smq_lio_file() {
	target_up smq_lio fileio
}

row_tcm_loop_block() {
	target_up tcm_loop iblock
}

row_smq_lio_block() {
	target_up smq_lio iblock
}
