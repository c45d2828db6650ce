// Package file publishes events as JSON lines, one CloudEvent a line: on standard output (stdout:)
// or in a file (file:///var/log/events.jsonl). Import it to link the two.
//
// A batch is written at once, and a file is synced before Publish returns nil. Any number of
// processes may write to one file: each locks it (flock) while it writes, so that lines do not mix.
// The file is opened for each batch, so it may be renamed or removed at any time, as log rotation
// does; a new one has the mode 0640, less the umask. Where a crash or a full disk has left half a
// line, the next batch begins on a line of its own: what is no JSON, a reader skips. While its
// directory is missing, or the file cannot be written, each Publish fails; opening the publisher
// does not.
//
// Standard output is as safe as what reads it: what is in a pipe is lost with its reader. Where
// several processes share a pipe, their batches may mix; let each have its own, or use a file.
package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/jobs/event"
)

func init() { event.Register("file", openFile) }

// file is a publisher that appends to the file at its path.
type file string

func openFile(ctx context.Context, to *url.URL, _ event.Config) (event.Publisher, error) {
	if (to.Host != "" && to.Host != "localhost") || !filepath.IsAbs(to.Path) || to.User != nil || to.RawQuery != "" ||
		to.Fragment != "" {
		return nil, errors.New("must be file:// and an absolute path, as in file:///var/log/events.jsonl, and nothing else")
	}
	f := file(to.Path)
	// A path that can never be the file is refused now. What an operator can mend, such as a
	// missing directory, fails each Publish until then, and holds up nothing but events.
	if err := f.append(ctx, nil); errors.Is(err, errNoFile) || errors.Is(err, syscall.EISDIR) {
		return nil, err
	}
	return f, nil
}

var errNoFile = errors.New("is no regular file; stdout: is the URL of standard output")

// Publish appends a batch. The events are in the file, on the disk, when it returns nil.
func (f file) Publish(ctx context.Context, events []event.Event) error {
	lines, errs := encode(events)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write %s: %w", f, context.Cause(ctx))
	}
	if err := f.append(ctx, lines); err != nil {
		return err
	}
	return event.Partial(errs)
}

// Close does nothing, as nothing is held.
func (f file) Close() error { return nil }

func (f file) append(ctx context.Context, lines []byte) (err error) {
	opened, info, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }() // which unlocks it
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s %w", f, errNoFile)
	case len(lines) == 0:
		return nil
	}
	return f.write(opened, info.Size(), lines)
}

// open opens the file, and locks it. One that was renamed or removed while its lock was waited for
// is not the file any more.
func (f file) open(ctx context.Context) (*os.File, os.FileInfo, error) {
	for {
		opened, err := os.OpenFile(string(f), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w. Create the directory %s, and let this user write to it", err, filepath.Dir(string(f)))
		}
		if err != nil {
			return nil, nil, fmt.Errorf("open the file for events: %w", err)
		}
		if err := lock(ctx, opened); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("lock %s: %w", f, err), opened.Close())
		}
		info, err := opened.Stat()
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("read the state of the file for events: %w", err), opened.Close())
		}
		if now, err := os.Stat(string(f)); err == nil && os.SameFile(info, now) {
			return opened, info, nil
		}
		_ = opened.Close()
	}
}

// write appends to a file of the given size.
func (f file) write(opened *os.File, size int64, lines []byte) error {
	if size > 0 {
		last := make([]byte, 1)
		if _, err := opened.ReadAt(last, size-1); err != nil {
			return fmt.Errorf("read the end of the file for events: %w", err)
		}
		if last[0] != '\n' {
			lines = append([]byte("\n"), lines...)
		}
	}
	if _, err := opened.Write(lines); err != nil {
		return fmt.Errorf("append events: %w", err)
	}
	if err := opened.Sync(); err != nil {
		return fmt.Errorf("append events: %w", err)
	}
	if size == 0 {
		return syncDir(filepath.Dir(string(f)))
	}
	return nil
}

// lock waits for the other processes that write to the file. It asks again and again, as a flock
// that waits would not end with the context.
func lock(ctx context.Context, opened *os.File) error {
	for {
		err := syscall.Flock(int(opened.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		if !elapsed.Sleep(ctx, 5*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// syncDir makes the name of a new file last.
func syncDir(path string) (err error) {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the directory of the file for events: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync the directory of the file for events: %w", err)
	}
	return nil
}
