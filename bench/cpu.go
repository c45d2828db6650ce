package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpu is how long processes have computed: this one, and those of the server.
type cpu struct {
	client, server time.Duration
}

func (c cpu) minus(before cpu) cpu { return cpu{c.client - before.client, c.server - before.server} }

// cpu reads both from Linux; elsewhere the server's is 0. A session that has ended meanwhile no longer counts.
func (s *server) cpu() (c cpu) {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		c.client = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	file, err := os.ReadFile(filepath.Join(s.dir, "pg", "data", "postmaster.pid"))
	if err != nil {
		return c
	}
	postmaster, _, _ := strings.Cut(string(file), "\n")
	children, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range children {
		if parentOf(process) == postmaster {
			c.server += computed(process)
		}
	}
	return c
}

// parentOf returns the parent's number. It is the second field behind the name, which is in parentheses.
func parentOf(process string) string {
	stat, _ := os.ReadFile(filepath.Join(process, "stat"))
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return ""
	}
	return fields[1]
}

// ownMemory returns the memory in MiB that a process shares with no other, as it is now.
func ownMemory(pid int) (mib float64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			_, _ = fmt.Sscan(kib, &mib)
		}
	}
	return mib / 1024
}

// computed returns the first number of schedstat: nanoseconds.
func computed(process string) time.Duration {
	schedstat, _ := os.ReadFile(filepath.Join(process, "schedstat"))
	first, _, _ := strings.Cut(string(schedstat), " ")
	took, _ := strconv.ParseInt(first, 10, 64)
	return time.Duration(took)
}

// costs says how long a row kept client and server busy, in the median of the rounds.
func costs(name string, parts []part) string {
	a := func(of func(part) time.Duration) float64 {
		var values []float64
		for _, p := range parts {
			values = append(values, float64(of(p).Nanoseconds())/1000/float64(p.rows))
		}
		return median(values)
	}
	return fmt.Sprintf("%s: CPU time of %.1f us a row in the client, %.1f us in the server.", name,
		a(func(p part) time.Duration { return p.client }), a(func(p part) time.Duration { return p.server }))
}
