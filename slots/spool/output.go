package spool

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"
)

// MaxOutput is how many bytes of a check's output are kept: the first half and the last half of them.
const MaxOutput = 256 << 10

// output keeps the beginning and the end of what a check writes.
type output struct {
	mu         sync.Mutex
	head, tail []byte
	written    int
}

// write is called with mu held.
func (o *output) write(p []byte) {
	o.written += len(p)
	n := min(len(p), MaxOutput/2-len(o.head))
	o.head = append(o.head, p[:n]...)
	o.tail = append(o.tail, p[n:]...)
	if len(o.tail) > MaxOutput {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-MaxOutput/2:]...)
	}
}

// kept returns what there is to keep, with a line that says how much was left out.
func (o *output) kept() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	tail := o.tail[max(0, len(o.tail)-MaxOutput/2):]
	gap := ""
	if left := o.written - len(o.head) - len(tail); left > 0 {
		gap = fmt.Sprintf("\n[... %d bytes left out ...]\n", left)
	}
	return bytes.Join([][]byte{o.head, tail}, []byte(gap))
}

// stream is stdout or stderr of a check: what is written to it goes to the output they share, as it comes.
type stream struct {
	*output
	line []byte // the one being written, as far as it matters
	last string // the last one that was not empty
	next string // what stood behind the last "next:", with a space after it; empty: there was none
}

const (
	nextPrefix = "next:"
	maxLine    = 500 // bytes of a line that matter
)

// Write never fails: a check must not notice.
func (o *stream) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.write(p)
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		o.line = append(o.line, line[:min(len(line), maxLine-len(o.line))]...)
		if ended {
			o.endLine()
		}
		rest = after
	}
	return len(p), nil
}

func (o *stream) endLine() {
	line := strings.TrimSpace(string(o.line))
	o.last = cmp.Or(line, o.last)
	if text, ok := strings.CutPrefix(line, nextPrefix); ok {
		o.next = strings.TrimSpace(text) + " "
	}
	o.line = o.line[:0]
}

// lastLine returns the last line that is not empty: where a program says why it failed.
func (o *stream) lastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endLine() // the last one may have no end
	return o.last
}

// asked returns the time that the last line "next: <RFC 3339>" asks for, or nil.
func (o *stream) asked() (*time.Time, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endLine()
	if o.next == "" {
		return nil, nil
	}
	text := strings.TrimSpace(o.next)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, fmt.Errorf("line %q on stdout: want next: and an instant such as 2006-01-02T15:04:05Z", nextPrefix+" "+text)
	}
	return &at, nil
}
