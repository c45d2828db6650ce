package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestEveryWorkloadRuns runs the workloads at toy size. It says nothing about how fast they are.
func TestEveryWorkloadRuns(t *testing.T) {
	server, err := startServer(t.Context(), watched(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.stop(); err != nil {
			t.Error(err)
		}
	})
	for _, w := range workloads {
		t.Run(w.name, func(t *testing.T) {
			b := &bench{sizes: toys, toy: true, server: server, log: slog.New(slog.DiscardHandler)}
			if b.report, err = newReport(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if err := w.run(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if len(b.report.Figures) == 0 {
				t.Error("it reports no figure")
			}
			for _, f := range b.report.Figures {
				if f.Met != nil {
					t.Errorf("a target is judged at toy size: %s, %s", f.Case, f.Subject)
				}
			}
			for _, note := range b.report.Notes {
				t.Log(note)
			}
		})
	}
}

// watched returns a directory. A shell that outlives a killed test stops the servers below it and removes it.
func watched(t *testing.T) string {
	parent, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(parent, "bench-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the user of the server passes through it
		t.Fatal(err)
	}
	const watchdog = `trap '' HUP INT TERM
		read -r _
		for file in "$1"/*/pg/data/postmaster.pid; do
			[ -e "$file" ] && kill -QUIT "$(head -n 1 "$file")"
		done
		for try in 1 2 3 4 5 6 7 8 9 10; do
			rm -rf "$1" 2>/dev/null && exit
			sleep 1
		done`
	shell := exec.CommandContext(context.WithoutCancel(t.Context()), "/bin/sh", "-c", watchdog, "sh", dir)
	shell.Dir, shell.SysProcAttr = "/", &syscall.SysProcAttr{Setsid: true}
	pipe, err := shell.StdinPipe()
	if err == nil {
		err = shell.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(pipe.Close(), shell.Wait()); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestToySizesAreNotMixedWithOthers(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"-toy -short", "-toy -rows 200", "-rows 99", "-only nothing", "-pg novalue"} {
		if _, _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
	o, chosen, err := parse([]string{"-toy"})
	if err != nil || o.sizes != toys || len(chosen) != len(workloads) {
		t.Errorf("-toy runs %d of %d workloads with sizes %+v, %v", len(chosen), len(workloads), o.sizes, err)
	}
}

// TestTheTargetsOfMakeCallBenchAsItIs reads the command lines of make, because a run of them takes hours.
func TestTheTargetsOfMakeCallBenchAsItIs(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"bench", "bench-30m", "bench-full"} {
		dry := exec.CommandContext(t.Context(), "make", "-C", "..", "--no-print-directory", "-n", target)
		dry.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=") // as outside of make test
		out, err := dry.Output()
		if err != nil {
			t.Fatal(err)
		}
		_, line, found := strings.Cut(string(out), "cd bench && go run . ")
		line, _, _ = strings.Cut(line, "\n")
		if !found {
			t.Fatalf("make %s does not run bench: %s", target, out)
		}
		if _, chosen, err := parse(strings.Fields(line)); err != nil || len(chosen) == 0 {
			t.Errorf("make %s: %q runs %d workloads, %v", target, line, len(chosen), err)
		}
	}
}
