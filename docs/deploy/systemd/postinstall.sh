#!/bin/sh
# After an upgrade, restarts the running processes one at a time: each serves
# before the next one stops. A start waits for NATS without limit, and a package
# manager must not.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || :
units() {
	systemctl list-units --plain --no-legend --state="$1" 'idworker@*.service' | cut -d ' ' -f 1
}
starting=$(units activating)
for unit in $(units active); do
	if ! timeout 120 systemctl restart "$unit"; then
		echo "idworker: $unit does not serve yet; processes after it still run the earlier version" >&2
		exit 0
	fi
done
for unit in $starting; do
	systemctl restart --no-block "$unit"
done
