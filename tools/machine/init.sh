#!/bin/sh
# First program of the machine. Its root is that of the machine below, read-only, under a layer in memory.
# So it sees all programs and files, and whatever it writes is gone in the end.
set -e
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t tmpfs -o mode=755 memory /mnt
mkdir /mnt/below /mnt/written /mnt/work /mnt/root
mount -t hostfs -o / below /mnt/below
for module in overlay fuse; do
  find "$WEIR_MODULES" -name "$module.ko" -exec insmod {} \;
done
mount -t overlay -o lowerdir=/mnt/below,upperdir=/mnt/written,workdir=/mnt/work root /mnt/root
cd /mnt/root

# Only what systemd needs itself starts here: no service of the machine below
units=etc/systemd/system
rm -rf $units/*.wants
mkdir -p $units/multi-user.target.wants etc/tmpfiles.d
ln -sf /lib/systemd/system/multi-user.target $units/default.target
for unit in getty.target serial-getty@.service apt-daily.timer; do ln -sf /dev/null $units/$unit; done
for names in tmp x11 systemd-tmp; do ln -sf /dev/null etc/tmpfiles.d/$names.conf; done # /tmp stays as it is
echo 'kernel.unprivileged_userns_clone = 1' > etc/sysctl.d/99-weir-machine.conf
echo machine > etc/hostname
cp "$WEIR_JOB" etc/weir-machine
cat > $units/weir-machine.service << 'UNIT'
[Unit]
After=basic.target dbus.service
[Service]
ExecStart=/bin/sh /etc/weir-machine
ExecStopPost=/bin/systemctl poweroff --force --force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/tty0
UNIT
ln -sf ../weir-machine.service $units/multi-user.target.wants/weir-machine.service
umount /proc
mount --no-mtab --move . /
exec chroot . /lib/systemd/systemd --log-target=null --show-status=no
