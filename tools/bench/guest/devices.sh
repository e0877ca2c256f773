# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced in the guest: brings up the devices that are measured side by side,
# and writes down how they are set. A row_NAME function sets DISKS and SGS.
#
# No timeout(1) here: under icount the guest's clock leaps whenever the guest
# waits for the host, its file system for one. The host ends a VM that hangs.

SIZE_MB=64
DISK_WAIT=15	# seconds, SCSI scans asynchronously
LOG=/dev/null
RESULTS=/nonexistent

die() {
	echo "bench: $*" >&2
	exit 1
}

note() {
	echo "$*" >> "$LOG"
}

# load ROW MODULE [PARAMETER=VALUE]...: the parameters go into the report
load() {
	local row=$1
	shift
	note "param $row modprobe $*"
	if ! modprobe "$@"; then
		dmesg | tail -5 >&2
		die "modprobe $* failed (modules are built by make)"
	fi
}

unload() {
	[[ ! -e /sys/module/$1 ]] || rmmod "$1" || die "rmmod $1 failed"
}

# scsi_disks PROC_NAME: the disks of the hosts of that driver, in LUN order
scsi_disks() {
	local host disk
	for host in /sys/class/scsi_host/host*; do
		[[ -e $host && $(< "$host/proc_name") == "$1" ]] || continue
		for disk in "$host"/device/target*/*/block/sd*; do
			[[ ! -e $disk ]] || echo "$(basename "${disk%/block/*}") ${disk##*/}"
		done
	done | sort -V | cut -d' ' -f2
}

# wait_scsi PROC_NAME COUNT: until so many disks are there, with their nodes
wait_scsi() {
	local tries disk ready
	for (( tries = 0; tries < DISK_WAIT * 20; tries++ )); do
		mapfile -t DISKS < <(scsi_disks "$1")
		ready=0
		for disk in "${DISKS[@]}"; do
			[[ ! -b /dev/$disk || ! -c /dev/$(sg_of "$disk") ]] || (( ready += 1 ))
		done
		if (( ready == $2 )); then
			SGS=()
			for disk in "${DISKS[@]}"; do
				SGS+=("$(sg_of "$disk")")
			done
			return
		fi
		sleep 0.05
	done
	die "$1: ${#DISKS[@]} disks after $DISK_WAIT s, $2 expected"
}

sg_of() {
	local sg
	for sg in "/sys/block/$1/device/scsi_generic"/sg*; do
		echo "${sg##*/}"
	done
}

scsi_drivers() {
	modprobe -a sd_mod sg || die "modprobe sd_mod sg failed"
}

# scsi_debug_set NAME VALUE: at run time, the driver refuses it while busy
scsi_debug_set() {
	echo "$2" > "/sys/bus/pseudo/drivers/scsi_debug/$1" ||
		die "scsi_debug: $1=$2 refused"
}

scsi_debug_up() {
	local luns=$2
	if [[ ! -e /sys/module/scsi_debug ]]; then
		scsi_drivers
		SDEBUG="scsi_debug delay=0 fake_rw=1 submit_queues=$(nproc) dev_size_mb=$SIZE_MB max_luns=$luns"
		# shellcheck disable=SC2086 # words
		load "$1" $SDEBUG
	else
		note "param $1 modprobe $SDEBUG"
	fi
	wait_scsi scsi_debug "$luns"
	scsi_debug_set delay 0
}

row_null_blk() {
	local args=(null_blk queue_mode=2 submit_queues="$(nproc)" irqmode=0 bs=512 gb=1
		nr_devices=1 hw_queue_depth=128)
	if [[ ! -e /sys/module/null_blk ]]; then
		load "$ROW" "${args[@]}"
	else
		note "param $ROW modprobe ${args[*]}"
	fi
	[[ -b /dev/nullb0 ]] || die "null_blk: no /dev/nullb0"
	DISKS=(nullb0)
	SGS=()
}

row_scsi_debug() {
	scsi_debug_up "$ROW" 1
	scsi_debug_set fake_rw 1
}

row_scsi_debug_data() {
	scsi_debug_up "$ROW" 1
	scsi_debug_set fake_rw 0
	note "param $ROW then fake_rw=0"
}

row_scsi_debug_timer() {
	scsi_debug_up "$ROW" 1
	scsi_debug_set fake_rw 1
	scsi_debug_set ndelay 20000
	note "param $ROW then ndelay=20000"
}

# smq_ram_up ROW LUNS NULL
smq_ram_up() {
	scsi_drivers
	unload smq_ram
	load "$1" smq_ram null="$3" luns="$2" size_mb="$SIZE_MB"
	wait_scsi smq_ram "$2"
}

row_smq_ram_null() {
	smq_ram_up "$ROW" 1 1
}

row_smq_ram() {
	smq_ram_up "$ROW" 1 0
}

row_scsi_debug_luns() {
	scsi_debug_up "$ROW" "$(nproc)"
	scsi_debug_set fake_rw 1
}

row_smq_ram_null_luns() {
	smq_ram_up "$ROW" "$(nproc)" 1
}

row_smq_ram_luns() {
	smq_ram_up "$ROW" "$(nproc)" 0
}

# A CPU looks for a free tag, and for room in the queue depth, where it found
# one last, and begins at a random place: a lottery for the life of a device,
# worth 8 instructions each. Small maps leave it no choice but the beginning.
begin_maps() {
	local disk=$1 file value
	local -A was=()
	for file in "/sys/block/$disk/device/queue_depth=1" "/sys/block/$disk/queue/nr_requests=4"; do
		value=${file##*=}
		file=${file%=*}
		[[ -w $file ]] || continue
		was[$file]=$(< "$file")
		echo "$value" > "$file" || die "$file: $value refused"
	done
	dd if="/dev/$disk" of=/dev/null bs=4096 count=8 iflag=direct status=none ||
		die "$disk: cannot be read"
	for file in "${!was[@]}"; do
		echo "${was[$file]}" > "$file" || die "$file: ${was[$file]} refused"
		[[ $(< "$file") == "${was[$file]}" ]] || die "$file: is not ${was[$file]} again"
	done
}

# No elevator; every other attribute as the driver and the kernel set it.
settle_queues() {
	local disk queue name settings
	for disk in "${DISKS[@]}"; do
		queue=/sys/block/$disk/queue
		echo none > "$queue/scheduler" || die "$disk: elevator none refused"
		begin_maps "$disk"
		touch "/dev/$disk"	# see disk_next_second()
		settings="hw_queues=$(find "/sys/block/$disk/mq" -mindepth 1 -maxdepth 1 | wc -l)"
		[[ ! -e /sys/block/$disk/device/queue_depth ]] ||
			settings+=" queue_depth=$(< "/sys/block/$disk/device/queue_depth")"
		for name in nr_requests rotational add_random iostats nomerges rq_affinity \
			wbt_lat_usec max_sectors_kb max_segments; do
			[[ ! -e $queue/$name ]] || settings+=" $name=$(< "$queue/$name")"
		done
		settings+=" elevator=$(sed -n 's/.*\[\(.*\)\].*/\1/p' "$queue/scheduler")"
		note "queue $ROW $disk $settings"
	done
}

# The plugins and the report read the symbols; modules move when reloaded.
dump_symbols() {
	local now
	now=$(cut -d' ' -f1,6 /proc/modules | sort)
	if [[ $now != "${SYMBOLS_FOR-}" ]]; then
		SYMBOLS_FOR=$now
		SYMBOLS=$(( ${SYMBOLS:-0} + 1 ))
		cp /proc/kallsyms "$RESULTS/kallsyms.tmp"
		sync -f "$RESULTS"
		mv "$RESULTS/kallsyms.tmp" "$RESULTS/kallsyms.$SYMBOLS"
	fi
}

# set_up ROW REPEAT
set_up() {
	ROW=$1
	"row_$1"
	settle_queues
	dump_symbols
	note "row $1 $2"
}

# measure KEY PROGRAM...: one workload; its lines of JSON go into the log
measure() {
	local key=$1 lines line
	shift
	lines=$("$@") || die "$ROW: $* failed"
	while read -r line; do
		note "run $key $line"
	done <<< "$lines"
}

start_log() {
	RESULTS=$1
	LOG=$RESULTS/log
	note "kernel $(uname -r)"
	note "cpu $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)"
	note "cmdline $(< /proc/cmdline)"
}
