# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced in the guest: brings up the devices that are measured side by side,
# and writes down how they are set. A row_NAME function brings up LUNS disks and
# sets DISKS and SGS.
#
# No timeout(1) here: under icount the guest's clock leaps whenever the guest
# waits for the host, its file system for one. The host ends a VM that hangs.

SIZE_MB=64
VIRTIO_DISKS=1	# that the VM's virtio-scsi device has
SD=yes		# or empty: no driver has the disks, which are named by their addresses
DISK_WAIT=15	# seconds, SCSI scans asynchronously
LOG=/dev/null
RESULTS=/nonexistent

# shellcheck source=SCRIPTDIR/targets.sh
. "$(dirname "${BASH_SOURCE[0]}")/targets.sh"
# shellcheck source=SCRIPTDIR/conv.sh
. "$(dirname "${BASH_SOURCE[0]}")/conv.sh"

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

# scsi_disks PROC_NAME: the disks of the hosts of that driver, in LUN order; those that are not
# sd's by their addresses
scsi_disks() {
	local host device disk
	for host in /sys/class/scsi_host/host*; do
		[[ -e $host && $(< "$host/proc_name") == "$1" ]] || continue
		for device in "$host"/device/target*/*:*; do
			disk=${device##*/}
			[[ -z $SD ]] || disk=$(basename "$device"/block/sd*)
			[[ $disk == *'*' ]] || echo "${device##*/} $disk"
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
			[[ -n $SD && ! -b /dev/$disk || ! -c /dev/$(sg_of "$disk") ]] ||
				(( ready += 1 ))
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

# device_of DISK: its SCSI device in sysfs
device_of() {
	if [[ -n $SD ]]; then
		echo "/sys/block/$1/device"
	else
		echo "/sys/bus/scsi/devices/$1"
	fi
}

sg_of() {
	local sg
	for sg in "$(device_of "$1")/scsi_generic"/sg*; do
		echo "${sg##*/}"
	done
}

# node_of disk|sg|bsg|smqsg DISK: below /dev
node_of() {
	local found
	case $1 in
	disk)
		found=$2
		;;
	sg)
		found=$(sg_of "$2")
		;;
	bsg)
		found=bsg/$(basename "$(readlink -f "$(device_of "$2")")")
		;;
	smqsg)
		found=$(basename "$(readlink -f "$(device_of "$2")/smq_generic")")
		;;
	esac
	[[ -e /dev/$found ]] || die "$2 has no node of kind $1"
	echo "$found"
}

scsi_drivers() {
	modprobe -a sd_mod sg smq_sg || die "modprobe sd_mod sg smq_sg failed"
}

# scsi_debug_set NAME VALUE: at run time, the driver refuses it while busy
scsi_debug_set() {
	echo "$2" > "/sys/bus/pseudo/drivers/scsi_debug/$1" ||
		die "scsi_debug: $1=$2 refused"
}

# once ROW MODULE [PARAMETER=VALUE]...: loads a module, unless it is there as wanted
once() {
	local row=$1 name=$2
	local -n loaded=LOADED_$name
	shift
	if [[ ${loaded-} == "$*" && -e /sys/module/$name ]]; then
		note "param $row modprobe $*"
		return
	fi
	unload "$name"
	load "$row" "$@"
	loaded="$*"
}

# scsi_debug_up ROW [PARAMETER=VALUE]...
scsi_debug_up() {
	local row=$1
	shift
	scsi_drivers
	once "$row" scsi_debug delay=0 fake_rw=1 submit_queues="$(nproc)" \
		dev_size_mb="$SIZE_MB" max_luns="$LUNS" "$@"
	wait_scsi scsi_debug "$LUNS"
	scsi_debug_set delay 0
}

row_null_blk() {
	local n
	once "$ROW" null_blk queue_mode=2 submit_queues="$(nproc)" irqmode=0 bs=512 gb=1 \
		nr_devices="$LUNS" hw_queue_depth=128
	DISKS=()
	SGS=()
	for (( n = 0; n < LUNS; n++ )); do
		[[ -b /dev/nullb$n ]] || die "null_blk: no /dev/nullb$n"
		DISKS+=("nullb$n")
	done
}

row_scsi_debug() {
	scsi_debug_up "$ROW"
	scsi_debug_set fake_rw 1
}

row_scsi_debug_data() {
	scsi_debug_up "$ROW"
	scsi_debug_set fake_rw 0
	note "param $ROW then fake_rw=0"
}

row_scsi_debug_deadline() {
	row_scsi_debug
	ELEVATOR=mq-deadline
}

row_scsi_debug_no_sd() {
	SD=
	scsi_debug_up "$ROW" no_uld=1
	scsi_debug_set fake_rw 1
}

row_scsi_debug_timer() {
	scsi_debug_up "$ROW"
	scsi_debug_set fake_rw 1
	scsi_debug_set ndelay 20000
	note "param $ROW then ndelay=20000"
}

# A poll queue beside the others: the driver has no more queues than the kernel may have CPUs.
scsi_debug_poll_up() {
	scsi_debug_up "$ROW" submit_queues="$(( $(nproc) + 1 ))" poll_queues=1
	scsi_debug_set fake_rw 1
	if [[ $(< "/sys/block/${DISKS[0]}/queue/io_poll") != 1 ]]; then
		SKIPPED="scsi_debug has no poll queue: the kernel has no room for one more CPU"
		return 1
	fi
}

row_scsi_debug_poll() {
	scsi_debug_poll_up
}

row_scsi_debug_timer_poll() {
	scsi_debug_poll_up || return 1
	scsi_debug_set ndelay 20000
	note "param $ROW then ndelay=20000"
}

# smq_ram_up NULL [PARAMETER=VALUE]...
smq_ram_up() {
	local null=$1
	shift
	scsi_drivers
	ram_directory_gone
	unload smq_ram
	load "$ROW" smq_ram null="$null" luns="$LUNS" size_mb="$SIZE_MB" "$@"
	wait_scsi smq_ram "$LUNS"
}

row_smq_ram_null() {
	smq_ram_up 1
}

row_smq_ram() {
	smq_ram_up 0
}

# Writes all blocks: smq_ram has no memory for those that were never written, and reads them by
# another way.
fill_disks() {
	local disk
	for disk in "${DISKS[@]}"; do
		dd if=/dev/zero of="/dev/$disk" bs=64k count="$(( SIZE_MB * 16 ))" oflag=direct \
			status=none || die "$disk: cannot be written"
	done
	note "param $ROW then all blocks written"
}

row_smq_ram_poll() {
	smq_ram_up 0 poll_queues=1
	fill_disks
}

row_smq_ram_holes_poll() {
	smq_ram_up 0 poll_queues=1
}

row_smq_ram_1q() {
	smq_ram_up 0 hw_queues=1
}

RAM_DIRECTORY=/sys/kernel/config/smq/ram/bench

ram_directory_gone() {
	local lun
	[[ -d $RAM_DIRECTORY ]] || return 0
	for lun in "$RAM_DIRECTORY"/luns/*; do
		rmdir "$lun"
	done
	rmdir "$RAM_DIRECTORY"
}

# ram_model_up NAME=VALUE...: a host whose hardware model is set so
ram_model_up() {
	local n setting
	scsi_drivers
	ram_directory_gone
	unload smq_ram
	load "$ROW" smq_ram hosts=0
	[[ -d ${RAM_DIRECTORY%/*} ]] || mount -t configfs configfs /sys/kernel/config ||
		die "configfs cannot be mounted"
	mkdir "$RAM_DIRECTORY" || die "smq_ram: no host can be made"
	echo "${POLL_QUEUES:-0}" > "$RAM_DIRECTORY/poll_queues" ||
		die "smq_ram: poll_queues=$POLL_QUEUES refused"
	echo "${HW_QUEUES:-0}" > "$RAM_DIRECTORY/hw_queues" ||
		die "smq_ram: hw_queues=$HW_QUEUES refused"
	for (( n = 0; n < LUNS; n++ )); do
		mkdir "$RAM_DIRECTORY/luns/$n" || die "smq_ram: LUN $n refused"
		echo "$SIZE_MB" > "$RAM_DIRECTORY/luns/$n/size_mb" ||
			die "smq_ram: LUN $n: size_mb=$SIZE_MB refused"
		echo "${NO_DATA:-0}" > "$RAM_DIRECTORY/luns/$n/null" ||
			die "smq_ram: LUN $n: null=$NO_DATA refused"
		echo 1 > "$RAM_DIRECTORY/luns/$n/power" || die "smq_ram: LUN $n has no power"
	done
	for setting in "$@"; do
		echo "${setting#*=}" > "$RAM_DIRECTORY/model/${setting%%=*}" ||
			die "smq_ram: $setting refused"
	done
	echo 1 > "$RAM_DIRECTORY/power" || die "smq_ram: the host does not start"
	note "param $ROW configfs luns=$LUNS size_mb=$SIZE_MB poll_queues=${POLL_QUEUES:-0}" \
		"hw_queues=${HW_QUEUES:-0} null=${NO_DATA:-0} ${*/#/model/}"
	wait_scsi smq_ram "$LUNS"
}

# Rung so far by the host of ram_model_up(); nothing for any other.
doorbells() {
	[[ ! -d $RAM_DIRECTORY ]] || cat "$RAM_DIRECTORY/model/doorbells"
}

# What the policy of that host counts, of all hardware queues together: KEY=NUMBER...
counted() {
	local stats
	[[ -d $RAM_DIRECTORY ]] || return 0
	stats=/sys/kernel/debug/smq/$(basename "$(smq_host)")/stats
	[[ -r $stats ]] || return 0
	awk '/^policy=/ {
		for (i = 3; i <= NF; i++) {
			split($i, word, "=")
			sum[word[1]] += word[2]
		}
	}
	END {
		for (key in sum)
			printf "%s=%d ", key, sum[key]
	}' "$stats"
}

smq_host() {
	local host
	for host in /sys/class/scsi_host/host*; do
		[[ $(< "$host/proc_name") != smq_ram ]] || echo "$host"
	done
}

# policy NAME [KNOB=VALUE]...: fails with SKIPPED if there is none of that name
policy() {
	local name=$1 host setting
	shift
	host=$(smq_host)
	if ! echo "$name" 2> /dev/null > "$host/smq/policy"; then
		SKIPPED="the policy $name is refused by smq"
		return 1
	fi
	for setting in "$@"; do
		if ! echo "${setting#*=}" 2> /dev/null > "$host/${setting%%=*}"; then
			SKIPPED="the policy $name has no $setting"
			return 1
		fi
	done
	POLICY=$name
	note "param $ROW policy $name $*"
}

# A policy that finds no use goes, and looks again every five seconds: each choice begins with a look,
# which is to meet commands. What batch has found out by them stays for a while.
look_again() {
	local host tries
	[[ $POLICY == batch ]] || return 0
	host=$(smq_host)
	for (( tries = 0; tries < 3; tries++ )); do
		echo direct > "$host/smq/policy" || die "the policy direct is refused"
		echo "$POLICY" > "$host/smq/policy" || die "the policy $POLICY is refused"
		dd if="/dev/${DISKS[0]}" of=/dev/null bs=512 count=64 iflag=direct status=none ||
			die "${DISKS[0]}: cannot be read"
		! grep -q expensive=1 "/sys/kernel/debug/smq/${host##*/}/stats" || return 0
	done
}

# Under icount a nanosecond is one instruction: a CPU ten times as slow as one of
# today. Only a device that is as slow has 32 commands in flight.
SERVICE_NS=500000
# So is the time that batch may hold a command.
BATCH_USECS=500

row_smq_ram_timer() {
	ram_model_up service_ns="$SERVICE_NS"
}

row_smq_ram_20us_poll() {
	POLL_QUEUES=1 ram_model_up service_ns=20000
	fill_disks
}

row_smq_ram_timer_batch() {
	ram_model_up service_ns="$SERVICE_NS"
	policy batch smq_batch/usecs="$BATCH_USECS"
}

row_smq_ram_doorbell() {
	ram_model_up service_ns="$SERVICE_NS" doorbell_ns=5000
}

row_smq_ram_doorbell_batch() {
	ram_model_up service_ns="$SERVICE_NS" doorbell_ns=5000
	policy batch smq_batch/usecs="$BATCH_USECS"
}

row_batch_free_direct() {
	row_smq_ram_timer
}

row_batch_free_again() {
	row_smq_ram_timer
}

row_batch_free_batch() {
	row_smq_ram_timer_batch
}

row_batch_bell_direct() {
	row_smq_ram_doorbell
}

row_batch_bell_again() {
	row_smq_ram_doorbell
}

row_batch_bell_batch() {
	row_smq_ram_doorbell_batch
}

# One hardware queue for all CPUs, with the lock of an LLD; commands end as soon as the doorbell is
# rung, which takes the least time. Data is not moved: no CPU does that where a device has DMA.
shared_up() {
	HW_QUEUES=1 NO_DATA=1 ram_model_up doorbell_ns=1
}

row_shared_direct() {
	shared_up
}

row_shared_again() {
	row_shared_direct
}

row_shared_bucket() {
	shared_up
	policy bucket smq_bucket/share=0
}

row_shared_deadline() {
	shared_up
	ELEVATOR=mq-deadline
}

# The policy as it is without settings: one submitter is no use for it.
row_shared_bucket_default() {
	shared_up
	policy bucket
}

# Commands end on the CPU that queued them, whichever has dispatched them.
row_shared_home_direct() {
	shared_up
	RQ_AFFINITY=2
}

row_shared_home_bucket() {
	row_shared_bucket
	RQ_AFFINITY=2
}

row_shared_nomerges_direct() {
	shared_up
	NOMERGES=2
}

row_shared_nomerges_bucket() {
	row_shared_bucket
	NOMERGES=2
}

# virtio_up DRIVER [PARAMETER=VALUE]...: has it drive the VM's virtio-scsi device. Disks
# beyond LUNS are idle, but there before anything is measured.
virtio_up() {
	scsi_drivers
	if ! grep -qsx 0x0008 /sys/bus/virtio/devices/*/device; then
		SKIPPED="this VM has no virtio-scsi device"
		return 1
	fi
	unload virtio_scsi
	unload smq_virtio
	load "$ROW" "$@"
	wait_scsi "$1" "$VIRTIO_DISKS"
	DISKS=("${DISKS[@]:0:LUNS}")
	SGS=("${SGS[@]:0:LUNS}")
}

row_virtio_scsi() {
	virtio_up virtio_scsi
}

row_smq_virtio() {
	virtio_up smq_virtio take_all=1
}

row_smq_virtio_poll() {
	virtio_up smq_virtio take_all=1 poll_queues=1
}

row_legacy_2013() {
	smq_ram_up 0 hw_queues=1
	policy legacy-model smq_legacy/era=2013
}

row_legacy_419() {
	smq_ram_up 0 hw_queues=1
	policy legacy-model smq_legacy/era=4.19
}

# A CPU looks for a free tag, and for room in the queue depth, where it found
# one last, and begins at a random place: a lottery for the life of a device,
# worth 8 instructions each. Small maps leave it no choice but the beginning.
begin_maps() {
	local disk=$1 file value
	local -A was=()
	for file in "$(device_of "$disk")/queue_depth=1" "/sys/block/$disk/queue/nr_requests=4"; do
		value=${file##*=}
		file=${file%=*}
		[[ -w $file ]] || continue
		was[$file]=$(< "$file")
		echo "$value" > "$file" || die "$file: $value refused"
	done
	if [[ -n $SD ]]; then
		dd if="/dev/$disk" of=/dev/null bs=4096 count=8 iflag=direct status=none
	else
		sg_dd if="/dev/$(sg_of "$disk")" of=/dev/null bs=512 count=64 bpt=8 2> /dev/null
	fi || die "$disk: cannot be read"
	for file in "${!was[@]}"; do
		echo "${was[$file]}" > "$file" || die "$file: ${was[$file]} refused"
		[[ $(< "$file") == "${was[$file]}" ]] || die "$file: is not ${was[$file]} again"
	done
}

# The row's elevator; every other attribute as the driver and the kernel set it.
settle_queues() {
	local disk queue name settings
	for disk in "${DISKS[@]}"; do
		if [[ -z $SD ]]; then
			# Nor has anybody else put an elevator there.
			begin_maps "$disk"
			note "queue $ROW $disk queue_depth=$(< "$(device_of "$disk")/queue_depth")"
			continue
		fi
		queue=/sys/block/$disk/queue
		echo none > "$queue/scheduler" || die "$disk: elevator none refused"
		begin_maps "$disk"
		echo "$ELEVATOR" > "$queue/scheduler" || die "$disk: elevator $ELEVATOR refused"
		[[ -z $NOMERGES ]] || echo "$NOMERGES" > "$queue/nomerges" ||
			die "$disk: nomerges=$NOMERGES refused"
		[[ -z $RQ_AFFINITY ]] || echo "$RQ_AFFINITY" > "$queue/rq_affinity" ||
			die "$disk: rq_affinity=$RQ_AFFINITY refused"
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
		cp /proc/kallsyms "$RESULTS/kallsyms.tmp" || die "$RESULTS: no room for the symbols"
		sync -f "$RESULTS"
		mv "$RESULTS/kallsyms.tmp" "$RESULTS/kallsyms.$SYMBOLS" ||
			die "$RESULTS: the symbols cannot be renamed"
	fi
}

# set_up ROW REPEAT [LUNS]: fails with SKIPPED if this row cannot be had
set_up() {
	ROW=$1
	LUNS=${3:-1}
	SKIPPED=
	ELEVATOR=none
	NOMERGES=
	RQ_AFFINITY=
	POLICY=
	SD=yes
	declare -F "row_$1" > /dev/null || die "there is no row $1"
	conv_gone
	target_gone
	# Under "if" set -e is off: only what a row says with SKIPPED may fail.
	if ! "row_$1"; then
		[[ -n $SKIPPED ]] || die "row $1 failed"
		return 1
	fi
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
