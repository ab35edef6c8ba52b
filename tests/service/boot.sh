#!/bin/sh
# Becomes systemd as PID 1 of a machine of its own, in namespaces that the caller has made: the
# system's files with an overlay over them, no units but journald and those that are put there.
# Nothing is written outside; everything is gone with the process. $1: where to build it, $2: the
# binary of tabane.
set -e
root=$1/root
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir -p "$1/upper" "$1/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for folder in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$folder"; done
chmod 1777 "$root/tmp"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/net"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mknod "$root/dev/net/tun" c 10 200
# As udev has it: who may use it is the capability's matter.
chmod 666 "$root/dev/net/tun"
touch "$root/usr/bin/tabane"
mount --bind "$2" "$root/usr/bin/tabane"
units=$root/etc/systemd/system
# Whatever is started on this system is not started here.
rm -rf "$root/etc/fstab" "$units" "$root/etc/tabane" "$root/var/lib/tabane" "$root/var/log/journal"
for folder in "$root"/usr/lib/systemd/system/*.wants "$root"/lib/systemd/system/*.wants; do
    rm -rf "$folder"
done
mkdir -p "$units" "$root/etc/tabane"
rm -f "$root/etc/resolv.conf"
echo 'nameserver 192.0.2.53' >"$root/etc/resolv.conf"
printf '%s\n' '[Unit]' 'Description=test' 'DefaultDependencies=no' \
    'Requires=systemd-journald.service' 'After=systemd-journald.service' \
    >"$units/tabane-test.target"
ip link set lo up
# Copies of files (LoadCredential=) reach a service by a mount that travels.
mount --make-rshared "$root"
exec chroot "$root" /usr/bin/env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --unit=tabane-test.target --log-target=journal </dev/null
