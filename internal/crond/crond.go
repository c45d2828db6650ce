// Package crond runs Debian's cron for tests, away from the crontabs of the machine.
package crond

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// script runs cron until its input ends. Cron sees one crontab, $DIR/table, and none of the machine:
// the script has file systems of its own over cron's directories. They and all processes of cron end
// with the script, which is the first process of its namespace, and the script ends with the test,
// however that ends. Cron gets a library that shifts its clock, if there is one.
const script = `set -e
exec 3<&0
mount -t tmpfs none /run
mount -t tmpfs none /var/spool/cron
mkdir /var/spool/cron/crontabs
[ ! -e /etc/crontab ] || mount --bind "$DIR/empty" /etc/crontab
mount -t tmpfs none /etc/cron.d
install -m 644 "$DIR/table" /etc/cron.d/orders
env -i PATH=/usr/bin:/bin ${ZONE:+TZ="$ZONE"} ${LD_PRELOAD:+LD_PRELOAD="$LD_PRELOAD"} "$CRON" -f &
cron=$!
{ read -r _ <&3 || true; kill $cron; } &
wait $cron
`

// Missing tells what a test that is skipped says.
const Missing = "this needs root, who may mount, and Debian's cron: apt-get install cron"

// Cron is a cron that runs.
type Cron struct {
	Said *bytes.Buffer // to be read when it has ended

	input io.Closer
	ended chan struct{}
}

// Start starts cron with a crontab of /etc/cron.d, and with a zone; empty: that of the machine. It
// writes into dir. Without what it needs, it returns nil and no error.
func Start(dir, table, zone string) (*Cron, error) {
	path, err := exec.LookPath("cron")
	if err != nil {
		path = "/usr/sbin/cron"
	}
	namespace := []string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc"}
	try := exec.Command("unshare", append(namespace, "true")...) //nolint:noctx // returns at once
	if _, err := os.Stat(path); err != nil || try.Run() != nil {
		return nil, nil
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "table"), []byte(table), 0o600),
		os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600))
	if err != nil {
		return nil, err
	}
	process := exec.Command("unshare", append(namespace, "sh", "-c", script)...) //nolint:noctx // ended by Stop
	process.Env = append(os.Environ(), "CRON="+path, "DIR="+dir, "ZONE="+zone)
	c := &Cron{Said: &bytes.Buffer{}, ended: make(chan struct{})}
	process.Stdout, process.Stderr = c.Said, c.Said
	if c.input, err = process.StdinPipe(); err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.ended)
		_ = process.Wait() // its exit code is that of a process that was stopped
	}()
	return c, nil
}

// Runs reports whether cron still runs.
func (c *Cron) Runs() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// Stop ends cron and all that it has started.
func (c *Cron) Stop() {
	_ = c.input.Close()
	<-c.ended
}
