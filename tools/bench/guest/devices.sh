# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced in the guest: brings up the devices that are compared, and records their settings. A
# row_NAME function brings up LUNS disks and sets DISKS and SGS.
#
# timeout(1) is not used: under icount the guest's clock leaps whenever the guest waits for the
# host, for example for its file system. The host ends a VM that hangs.

SIZE_MB=64
VIRTIO_DISKS=1	# how many disks the VM's virtio-scsi device has
SD=yes		# empty: the disks are not bound to sd, and DISKS has their SCSI addresses
DISK_WAIT=15	# seconds to wait for disks: SCSI scans asynchronously
LOG=/dev/null
RESULTS=/nonexistent

# shellcheck source=SCRIPTDIR/targets.sh
. "$(dirname "${BASH_SOURCE[0]}")/targets.sh"
# shellcheck source=SCRIPTDIR/conv.sh
. "$(dirname "${BASH_SOURCE[0]}")/conv.sh"
# shellcheck source=SCRIPTDIR/policies.sh
. "$(dirname "${BASH_SOURCE[0]}")/policies.sh"
# shellcheck source=SCRIPTDIR/own.sh
. "$(dirname "${BASH_SOURCE[0]}")/own.sh"

die() {
	echo "bench: $*" >&2
	exit 1
}

note() {
	echo "$*" >> "$LOG"
}

# load ROW MODULE [PARAMETER=VALUE]...: loads a module and records its parameters for the report
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

# scsi_disks PROC_NAME: prints the disks of that driver's hosts, in the order of LUNs; without sd
# their SCSI addresses
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

# wait_scsi PROC_NAME COUNT: waits until that driver's hosts have COUNT disks with their nodes; sets
# DISKS and SGS
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

# device_of DISK: prints the path of the disk's SCSI device in sysfs
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

# node_of disk|disk_own|sg|bsg|smqsg DISK: prints the path, below /dev, of the disk's node of this kind
node_of() {
	local found
	case $1 in
	disk | disk_own)
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

# scsi_debug_set NAME VALUE: changes a parameter at run time
scsi_debug_set() {
	echo "$2" > "/sys/bus/pseudo/drivers/scsi_debug/$1" ||
		die "scsi_debug: $1=$2 refused"
}

# once ROW MODULE [PARAMETER=VALUE]...: loads a module, unless it is already loaded with these
# parameters
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
	queue_stats 1
}

# queue_stats 0|1: if smq_sg's nodes have this attribute, sets whether the block layer measures the
# times of passthrough commands
queue_stats() {
	local knob
	for knob in /sys/class/smq_sg/*/queue_stats; do
		[[ ! -e $knob ]] || echo "$1" > "$knob" || die "$knob: $1 refused"
	done
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

# scsi_debug_elevator MODULE ELEVATOR
scsi_debug_elevator() {
	if ! modprobe "$1"; then
		SKIPPED="the kernel has no $2"
		return 1
	fi
	row_scsi_debug
	ELEVATOR=$2
}

row_scsi_debug_bfq() {
	scsi_debug_elevator bfq bfq
}

row_scsi_debug_kyber() {
	scsi_debug_elevator kyber-iosched kyber
}

row_scsi_debug_no_sd() {
	SD=
	scsi_debug_up "$ROW" no_uld=1
	scsi_debug_set fake_rw 1
}

row_scsi_debug_no_stats() {
	row_scsi_debug
	if ! compgen -G "/sys/class/smq_sg/*/queue_stats" > /dev/null; then
		SKIPPED="the kernel takes no times of passthrough commands"
		return 1
	fi
	# Set the elevator first: changing it turns the block layer's throttling on, which measures
	# the times of requests again.
	set_elevator "${DISKS[0]}" none
	queue_stats 0
	note "param $ROW then queue_stats=0"
}

row_scsi_debug_timer() {
	scsi_debug_up "$ROW"
	scsi_debug_set fake_rw 1
	scsi_debug_set ndelay 20000
	note "param $ROW then ndelay=20000"
}

# Brings up scsi_debug with an additional poll queue. scsi_debug has at most as many queues as there
# are possible CPUs.
scsi_debug_poll_up() {
	scsi_debug_up "$ROW" submit_queues="$(( $(nproc) + 1 ))" poll_queues=1
	scsi_debug_set fake_rw 1
	if [[ $(< "/sys/block/${DISKS[0]}/queue/io_poll") != 1 ]]; then
		SKIPPED="scsi_debug has no poll queue: there are too few possible CPUs"
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
	ram_directory_remove
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

# Writes all blocks: a block that was never written has no memory in smq_ram, and a read of it takes
# another path.
fill_disks() {
	local disk
	for disk in "${DISKS[@]}"; do
		dd if=/dev/zero of="/dev/$disk" bs=64k count="$(( SIZE_MB * 16 ))" oflag=direct \
			status=none || die "$disk: cannot be written"
	done
	note "param $ROW then all blocks written"
}

row_smq_ram_null_poll() {
	smq_ram_up 1 poll_queues=1
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

ram_directory_remove() {
	local lun
	[[ -d $RAM_DIRECTORY ]] || return 0
	for lun in "$RAM_DIRECTORY"/luns/*; do
		rmdir "$lun"
	done
	rmdir "$RAM_DIRECTORY"
}

# ram_model_up NAME=VALUE...: makes a host with these settings of the hardware model
ram_model_up() {
	local n setting
	scsi_drivers
	ram_directory_remove
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

# If there is a host of ram_model_up(), prints how many doorbells it has rung so far.
doorbells() {
	[[ ! -d $RAM_DIRECTORY ]] || cat "$RAM_DIRECTORY/model/doorbells"
}

row_smq_ram_20us_poll() {
	POLL_QUEUES=1 ram_model_up service_ns=20000
	fill_disks
}

# virtio_up DRIVER [PARAMETER=VALUE]...: gives the VM's virtio-scsi device to DRIVER, and waits for
# all disks of the device. Only the first LUNS disks are measured; the others stay idle.
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

row_smq_ram_1q_timer() {
	HW_QUEUES=1 ram_model_up service_ns=20000
}

row_legacy_2013_timer() {
	row_smq_ram_1q_timer
	policy legacy-model smq_legacy/era=2013
}

row_legacy_419_timer() {
	row_smq_ram_1q_timer
	policy legacy-model smq_legacy/era=4.19
}

# begin_maps DISK: does the first I/O with small maps. A CPU begins its search for a free tag, and
# for room in the queue depth, at the place in the map where it last found one. The first place is
# random. In each of the two maps it changes the number of instructions per command by 8, as long as
# the device exists. In a small map the only place is at the start.
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

# set_elevator DISK ELEVATOR: tries again, because Linux 7.x returns EBUSY while a disk of the host
# is being added.
set_elevator() {
	local i

	for ((i = 0; i < 50; i++)); do
		! echo "$2" 2> /dev/null > "/sys/block/$1/queue/scheduler" || return 0
		sleep .1
	done
	die "$1: elevator $2 refused"
}

# Sets the row's elevator, and nomerges and rq_affinity if the row sets them. All other attributes
# stay as the driver and the kernel have set them.
settle_queues() {
	local disk queue name settings
	for disk in "${DISKS[@]}"; do
		if [[ -z $SD ]]; then
			# A device without sd has no attribute for the elevator, so no program has
			# changed it.
			begin_maps "$disk"
			note "queue $ROW $disk queue_depth=$(< "$(device_of "$disk")/queue_depth")"
			continue
		fi
		queue=/sys/block/$disk/queue
		set_elevator "$disk" none
		begin_maps "$disk"
		set_elevator "$disk" "$ELEVATOR"
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

# Writes the kernel's symbols for the plugins and the report. Writes them again if other modules are
# loaded than last time, because a reloaded module has new addresses.
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

# set_up ROW REPEAT [LUNS]: brings a row's disks up; if that is not possible, fails and sets SKIPPED
set_up() {
	ROW=$1
	LUNS=${3:-1}
	SKIPPED=
	ELEVATOR=none
	NOMERGES=
	RQ_AFFINITY=
	POLICY=
	HOST=
	SD=yes
	declare -F "row_$1" > /dev/null || die "there is no row $1"
	conv_gone
	target_gone
	# "set -e" has no effect in the condition of "if", so a row must return a failure itself.
	if ! "row_$1"; then
		[[ -n $SKIPPED ]] || die "row $1 failed"
		return 1
	fi
	settle_queues
	dump_symbols
	note "row $1 $2"
}

# measure KEY PROGRAM...: runs one workload, and writes its lines of JSON to the log
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
