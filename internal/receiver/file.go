package receiver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// file is a receiver that appends to the file at its path, or writes to standard output. It is for demonstrations,
// tests, and programs that follow a file.
type file string

func openFile(u *url.URL) (Receiver, error) {
	if u.Scheme == "stdout" {
		return file(""), nil
	}
	if u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, errors.New("want file:// and an absolute path, such as file:///var/log/alerts.txt")
	}
	return file(u.Path), nil
}

// Send implements Receiver. Each message is a line, or several of which the second and later ones are indented.
func (f file) Send(_ context.Context, m Message) (answer string, err error) {
	line := strings.ReplaceAll(strings.TrimSpace(m.Text), "\n", "\n    ") + "\n"
	if m.To != "" {
		line = m.To + ": " + line
	}
	if f == "" {
		_, err = os.Stdout.WriteString(line)
		return "", err
	}
	opened, err := os.OpenFile(string(f), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return "", fmt.Errorf("open the file for messages: %w", err)
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	if _, err = opened.WriteString(line); err != nil {
		return "", fmt.Errorf("write %s: %w", f, err)
	}
	return "", opened.Sync()
}

// Most implements Receiver.
func (f file) Most() int { return 1 << 20 }

// Close implements Receiver.
func (f file) Close() error { return nil }
