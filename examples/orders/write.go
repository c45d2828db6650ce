package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// writeAlerts writes alerts as CSV: order_id, alert, and slot in RFC 3339 and UTC.
func writeAlerts(w io.Writer, list []alert) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"order_id", "alert", "slot"}); err != nil {
		return err
	}
	for _, a := range list {
		if err := out.Write([]string{a.OrderID, a.Alert, a.Slot.UTC().Format(time.RFC3339)}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// draft is a file that replaces another when it is complete. Until then the other stays unchanged.
type draft struct {
	*os.File
	path string
}

// newDraft fails at once if the file could not be written at the end.
func newDraft(path string) (*draft, error) {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("write %s: it exists, and is no regular file", path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	dir, name := filepath.Split(path)
	file, err := os.OpenFile(fmt.Sprintf("%s.%s.%d.tmp", dir, name, os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return &draft{File: file, path: path}, nil
}

// publish replaces the old file.
func (d *draft) publish() error {
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return err
	}
	return os.Rename(d.Name(), d.path)
}

// discard removes a file that was not published.
func (d *draft) discard() {
	_ = d.Close()
	_ = os.Remove(d.Name())
}
