# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by devices.sh: rows whose disks smq_conv claims or whose host it attaches, and the rows of the lower hosts.

CONV=/sys/bus/scsi/drivers/smq_conv

# Unloads smq_conv, which ends the claims of the previous row.
conv_gone() {
	unload smq_conv
}

# conv_up ROW: brings up the disks of row ROW and claims them
conv_up() {
	local address
	"row_$1" || return 1
	local bare=("${DISKS[@]}") disk
	load "$ROW" smq_conv
	for disk in "${bare[@]}"; do
		address=$(basename "$(readlink -f "$(device_of "$disk")")")
		echo "$address" > "$CONV/claim" || die "smq_conv: claim $address refused"
		note "param $ROW claim $address"
	done
	wait_scsi smq_conv "$LUNS"
}

# attach_up ROW: brings up the disks of row ROW and attaches their host; sets HOST, for policy()
attach_up() {
	"row_$1" || return 1
	HOST=$(readlink -f "$(device_of "${DISKS[0]}")")
	HOST=$(grep -o 'host[0-9]*' <<< "$HOST" | head -1)
	load "$ROW" smq_conv
	echo "$HOST" > "$CONV/attach" || die "smq_conv: attach $HOST refused"
	note "param $ROW attach $HOST"
}

row_attach_scsi_debug() {
	attach_up scsi_debug
}

row_attach_tcm_loop_rd() {
	attach_up tcm_loop_rd
}

# The policy prio, on a device that is never full.
row_attach_scsi_debug_prio() {
	attach_up scsi_debug
	policy prio
}

# Attached and detached again: must cost what a host costs that never was attached.
row_detached_scsi_debug() {
	attach_up scsi_debug
	echo "$HOST" > "$CONV/detach" || die "smq_conv: detach $HOST refused"
}

row_conv_scsi_debug() {
	conv_up scsi_debug
}

row_scsi_debug_1q() {
	scsi_debug_up "$ROW" submit_queues=1
	scsi_debug_set fake_rw 1
}

row_conv_scsi_debug_1q() {
	conv_up scsi_debug_1q
}

# The policy bucket on the upper host, above a lower host with one queue.
row_conv_scsi_debug_1q_bucket() {
	local host
	conv_up scsi_debug_1q
	host=$(readlink -f "$(device_of "${DISKS[0]}")")
	host=/sys/class/scsi_host/$(grep -o 'host[0-9]*' <<< "$host" | head -1)
	echo bucket > "$host/smq/policy" || die "the policy bucket is refused"
	note "param $ROW policy bucket"
}

# hba_up MODULE: brings up the disks of one of QEMU's HBAs. The module stays loaded, so its disks
# are there, but idle, while other rows are measured.
hba_up() {
	scsi_drivers
	once "$ROW" "$1"
	wait_scsi "$1" "$LUNS"
}

row_virtio_scsi_hba() {
	hba_up virtio_scsi
}

row_conv_virtio_scsi_hba() {
	conv_up virtio_scsi_hba
}

row_pvscsi() {
	hba_up vmw_pvscsi
}

row_conv_pvscsi() {
	conv_up pvscsi
}

row_megasas() {
	hba_up megaraid_sas
}

row_conv_megasas() {
	conv_up megasas
}

row_conv_smq_ram() {
	conv_up smq_ram
}

row_conv_smq_ram_1q() {
	conv_up smq_ram_1q
}

row_conv_tcm_loop_rd() {
	conv_up tcm_loop_rd
}

# stage_up STAGE: binds the pvscsi device to smq_pvscsi, or binds it again, for another stage. The
# module stays loaded, so that its symbols stay valid.
stage_up() {
	local device='' path driver=/sys/bus/pci/drivers/smq_pvscsi
	for path in /sys/bus/pci/devices/*; do
		[[ $(< "$path/vendor")$(< "$path/device") != 0x15ad0x07c0 ]] || device=$path
	done
	[[ -n $device ]] || die "there is no pvscsi device"
	scsi_drivers
	modprobe smq_pvscsi || die "modprobe smq_pvscsi failed (modules are built by make)"
	echo smq_pvscsi > "$device/driver_override"
	echo "$1" > /sys/module/smq_pvscsi/parameters/stage
	[[ ! -e $driver/${device##*/} ]] || echo "${device##*/}" > "$driver/unbind"
	echo "${device##*/}" > /sys/bus/pci/drivers_probe
	note "param $ROW smq_pvscsi stage=$1"
	wait_scsi smq_pvscsi "$LUNS"
}

for stage in 0 1 2 3 4 5; do
	eval "row_stage$stage() { stage_up $stage; }"
done
