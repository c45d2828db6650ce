package pgtest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

//go:embed watchdog.sh
var watchdog string

// watch starts the process that, when this one ends, stops the server below dir and removes dir
// and the directory of the socket, which is elsewhere when the path is long.
// The returned function has it do so now, and waits.
func watch(dir, socket string) (stop func() error, err error) {
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", watchdog, "sh", dir, socket)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what ends a group of processes must not end this one
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the watchdog of the server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog of the server: %w", err)
	}
	return func() error {
		if err := errors.Join(pipe.Close(), cmd.Wait()); err != nil {
			return fmt.Errorf("stop the server and remove %s: %w", dir, err)
		}
		return nil
	}, nil
}
