# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # devices.sh reads SKIPPED, ELEVATOR, NOMERGES and RQ_AFFINITY
#
# Sourced by devices.sh: rows of smq_ram's hardware model with and without a policy, and functions
# for the policy's counters.

# Prints the counters of the host's policy, summed over all hardware queues: KEY=NUMBER...
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

# Prints the effective policy, if the row has chosen a policy; "slower" if the layer has found that
# direct is faster.
effective() {
	[[ -z $POLICY ]] ||
		sed -n 's/^host=.* slower=1 .*/slower/p; t; s/^host=.* effective=\([^ ]*\).*/\1/p' \
			"/sys/kernel/debug/smq/$(basename "$(smq_host)")/stats"
}

# Prints the directory of the host that the row has attached, else of smq_ram's host.
smq_host() {
	local host
	if [[ -n $HOST ]]; then
		echo "/sys/class/scsi_host/$HOST"
		return
	fi
	for host in /sys/class/scsi_host/host*; do
		[[ $(< "$host/proc_name") != smq_ram ]] || echo "$host"
	done
}

# policy NAME [KNOB=VALUE]...: chooses a policy and sets its knobs; if smq refuses the policy or a
# knob, fails and sets SKIPPED
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

# look_again PROGRAM ARG...: makes the policy find out about a load, a workload's program, before it
# is measured. While its device is not full, prio is effective only during a look. So choose it again,
# and wait until the look is over: the next one begins after five seconds. batch looks at doorbells,
# and if these are expensive, it is compared with direct. So choose it again under the load, which is
# the program's warm-up, made long.
look_again() {
	local host stats job tries
	host=$(smq_host)
	[[ $POLICY == prio || $POLICY == batch ]] || return 0
	if [[ $POLICY == batch ]]; then
		"$@" --warmup 1000000 > /dev/null &
		job=$!
	fi
	echo direct > "$host/smq/policy" || die "the policy direct is refused"
	echo "$POLICY" > "$host/smq/policy" || die "the policy $POLICY is refused"
	sleep 0.5
	[[ $POLICY == batch ]] || return 0
	stats=/sys/kernel/debug/smq/${host##*/}/stats
	for (( tries = 0; tries < 500; tries++ )); do
		if ! grep -q expensive=1 "$stats" || grep -q compared=1 "$stats"; then
			break
		fi
		sleep .02
	done
	kill "$job"
	wait "$job" || true
	(( tries < 500 )) || die "$POLICY: it is not compared with direct"
}

# Under icount an instruction takes a nanosecond, so the CPU is ten times slower than a real one.
# The device must be slow as well, otherwise there would never be 32 commands in flight.
SERVICE_NS=500000
# For how long batch may hold a command: long, because the CPU is slow.
BATCH_USECS=500

row_smq_ram_timer() {
	ram_model_up service_ns="$SERVICE_NS"
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

# One hardware queue for all CPUs, with an LLD's lock. The device takes the least time: commands end
# as soon as the doorbell is rung. The CPU moves no data, because real devices use DMA.
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

# The policy bucket with its default settings: with one submitter it has nothing to do.
row_shared_bucket_default() {
	shared_up
	policy bucket
}

# With rq_affinity=2 each command ends on the CPU that queued it, not on the one that dispatched it.
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
