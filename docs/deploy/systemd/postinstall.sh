#!/bin/sh
# After an upgrade, restarts the running processes one at a time: each serves
# before the next one stops.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
units=$(systemctl list-units --plain --no-legend --state=active 'idworker@*.service' | cut -d ' ' -f 1)
for unit in $units; do
	if ! systemctl restart "$unit"; then
		echo "idworker: $unit does not start; the processes after it still run the earlier version" >&2
		break
	fi
done
