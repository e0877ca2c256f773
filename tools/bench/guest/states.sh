# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by guest/states: the open paths to the disk DISKS[0], and the states. A state_NAME
# function brings the disk into a state and out of it; while the disk is in the state, all paths
# send commands. It checks that the state was reached. If the kernel cannot do it, the function sets
# SKIPPED and fails.

USED=64		# commands of each path while the disk is in a state
PIPES=/run/bench-states
PATHS=()
declare -A PATH_RUNS PATH_KIND PATH_COMMAND PATH_PID PATH_TO PATH_FROM

path_open() {
	local command to from
	mkdir -p "$PIPES"
	rm -f "$PIPES"/{to,from}
	mkfifo "$PIPES/to" "$PIPES/from"
	read -ra command <<< "${PATH_COMMAND[$1]}"
	"${command[@]}" "/dev/$(node_of "${PATH_KIND[$1]}" "${DISKS[0]}")" \
		< "$PIPES/to" > "$PIPES/from" &
	PATH_PID[$1]=$!
	exec {to}> "$PIPES/to" {from}< "$PIPES/from"
	PATH_TO[$1]=$to
	PATH_FROM[$1]=$from
}

path_close() {
	local to=${PATH_TO[$1]} from=${PATH_FROM[$1]}
	kill "${PATH_PID[$1]}"
	wait "${PATH_PID[$1]}" || true
	exec {to}>&- {from}<&-
}

# path_answer PATH: sets ANSWER to the next line of the path's program. Starts no process: while a
# path is measured, everything else on its CPU would be counted, too.
path_answer() {
	read -r ANSWER <&"${PATH_FROM[$1]}" || die "$1: the program has ended"
}

# Waits, without starting a process, until the kernel has done what earlier processes left to it.
settle() {
	[[ -p $PIPES/silent ]] || mkfifo "$PIPES/silent"
	read -r -t 0.4 <> "$PIPES/silent" || true
}

path_measure() {
	local n answers=()
	settle
	echo measure >&"${PATH_TO[$1]}"
	for (( n = 0; n < PATH_RUNS[$1]; n++ )); do
		path_answer "$1"
		answers+=("$ANSWER")
	done
	for ANSWER in "${answers[@]}"; do
		note "run $1 $ANSWER"
	done
}

# path_use PATH COUNT: the path sends COUNT commands; sets FAILED to the number of those that failed
path_use() {
	echo "use $2" >&"${PATH_TO[$1]}"
	path_answer "$1"
	[[ $ANSWER =~ \"failed\":\ ([0-9]+) ]] || die "$1: $ANSWER"
	FAILED=${BASH_REMATCH[1]}
}

# all_use COUNT: all paths send COUNT commands, none of which may fail
all_use() {
	local key
	for key in "${PATHS[@]}"; do
		path_use "$key" "$1"
		(( FAILED == 0 )) || die "$key: $FAILED of $1 commands failed"
	done
}

# set_to FILE VALUE: writes a value, and checks that it is there
set_to() {
	echo "$2" > "$1" || die "$1: $2 refused"
	[[ $(< "$1") == "$2" ]] || die "$1: is not $2 but $(< "$1")"
}

state_fresh() {
	:
}

state_pause() {
	sleep 3
}

# A unit attention for each path: its next command ends with CHECK CONDITION.
state_unit_attention() {
	local key luns
	luns=$(< /sys/bus/pseudo/drivers/scsi_debug/max_luns)
	for key in "${PATHS[@]}"; do
		scsi_debug_set max_luns "$(( luns + 1 ))"
		scsi_debug_set max_luns "$luns"
		path_use "$key" 16
		(( FAILED == 1 )) || die "$key: $FAILED commands failed, not 1"
	done
}

# reset device|host: resets it for each path, whose next command gets a unit attention
reset() {
	local key
	for key in "${PATHS[@]}"; do
		sg_reset -N "--$1" "/dev/${SGS[0]}" || die "sg_reset --$1 failed"
		path_use "$key" 16
		(( FAILED > 0 )) || die "$key: no unit attention after sg_reset --$1"
	done
}

state_device_reset() {
	reset device
}

state_host_reset() {
	reset host
}

state_elevator() {
	set_elevator "${DISKS[0]}" mq-deadline
	all_use "$USED"
	set_elevator "${DISKS[0]}" none
}

# lower FILE VALUE: lowers a number, and raises it again
lower() {
	local was
	was=$(< "$1")
	set_to "$1" "$2"
	all_use "$USED"
	set_to "$1" "$was"
}

state_queue_depth() {
	lower "/sys/block/${DISKS[0]}/device/queue_depth" 4
}

state_nr_requests() {
	lower "/sys/block/${DISKS[0]}/queue/nr_requests" 8
}

# The VM cannot suspend devices, because its root file system is on one that cannot resume.
state_frozen() {
	local test=/sys/power/pm_test
	if [[ ! -w $test ]]; then
		# shellcheck disable=SC2034 # guest/states notes it
		SKIPPED="the kernel has no CONFIG_PM_SLEEP_DEBUG"
		return 1
	fi
	echo 0 > /sys/module/suspend/parameters/pm_test_delay
	echo freezer > "$test"
	echo freeze > /sys/power/state || die "the system cannot be frozen"
	echo none > "$test"
}

# wait_full DISK: waits until reads of the disk use nearly all tags of its host
wait_full() {
	local tries reads host tags
	host=$(readlink -f "$(device_of "$1")" | grep -o 'host[0-9]*' | head -1)
	tags=$(< "/sys/class/scsi_host/$host/can_queue")
	for (( tries = 0; tries < 300; tries++ )); do
		read -r reads _ < "/sys/block/$1/inflight"
		(( reads < tags * 3 / 4 )) || return 0
		sleep .02
	done
	die "$1: only $reads of $tags tags are in use"
}

# wait_idle DISK: waits until no read of the disk is in flight: scsi_debug refuses another delay
# until then, and the end of a process does not wait for its reads
wait_idle() {
	local tries reads
	for (( tries = 0; tries < 300; tries++ )); do
		read -r reads _ < "/sys/block/$1/inflight"
		(( reads )) || return 0
		sleep .02
	done
	die "$1: $reads reads do not end"
}

# shortage DISK: reads of the disk use all tags of its host, while all paths send commands. The
# reads are a warm-up that does not end, because a run would have markers.
shortage() {
	local job
	scsi_debug_set ndelay 10000000
	# shellcheck disable=SC2154 # guest/states sets "programs"
	"$programs/uring" --depth 512 --batch 128 --timeout 86400 --warmup 1000000000 \
		"/dev/$1" > /dev/null &
	job=$!
	wait_full "$1"
	all_use 16
	wait_full "$1"
	kill "$job"
	wait "$job" || true
	wait_idle "$1"
	scsi_debug_set delay 0
}

state_tags() {
	shortage "${DISKS[0]}"
}

# all_try COUNT: all paths send COUNT commands. Some of them may get a unit attention
all_try() {
	local key
	for key in "${PATHS[@]}"; do
		path_use "$key" "$1"
	done
}

# luns COUNT: sets the number of the host's LUNs. Their next commands get a unit attention
luns() {
	scsi_debug_set max_luns "$1"
	all_try "$USED"
}

read_some() {
	dd "if=/dev/$1" of=/dev/null bs=4k count=64 iflag=direct status=none ||
		die "/dev/$1 cannot be read"
}

state_other_lun() {
	local host
	host=$(readlink -f "$(device_of "${DISKS[0]}")" | grep -o 'host[0-9]*' | head -1)
	luns 2
	echo "0 0 1" > "/sys/class/scsi_host/$host/scan"
	wait_scsi scsi_debug 2
	read_some "${DISKS[1]}"
	all_try "$USED"
	echo 1 > "$(device_of "${DISKS[1]}")/delete"
	wait_scsi scsi_debug 1
	luns 1
}

# While the disk is claimed, commands are refused on files that are open.
state_claim() {
	local address tries
	address=$(basename "$(readlink -f "$(device_of "${DISKS[0]}")")")
	modprobe smq_conv || die "modprobe smq_conv failed"
	echo "$address" > "$CONV/claim" || die "smq_conv: claim $address refused"
	wait_scsi smq_conv 1
	read_some "${DISKS[0]}"
	for (( tries = 0; tries < 50; tries++ )); do
		# A program may have opened the new disk to see what it is.
		! echo "$address" 2> /dev/null > "$CONV/release" || break
		sleep .1
	done
	(( tries < 50 )) || die "smq_conv: release $address refused"
	wait_scsi scsi_debug 1
	set_elevator "${DISKS[0]}" none
	unload smq_conv
	all_try "$USED"
}
