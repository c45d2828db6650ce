package embedded

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// cacheKept is how many entries a cache keeps: each version of PostgreSQL has one, of 40 MB.
	cacheKept = 4

	// cacheEntry and cachePart end the names of entries, and of files that are being written.
	cacheEntry = ".data"
	cachePart  = ".part"

	// abandoned is the age from which a file that is being written belongs to a process that died.
	abandoned = time.Hour
)

// errTorn is returned for an entry that is not whole.
var errTorn = errors.New("the entry is not whole")

// entry returns the file of the cache that holds what the programs make by a recipe. It is empty if
// there is no cache. Programs of the same version may be built differently, so their size and time
// count too.
func (s *Server) entry(in install, recipe ...string) string {
	info, err := os.Stat(in.program("postgres"))
	if s.cache == "" || s.settings["fsync"] != "off" || err != nil {
		return ""
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%v %d %v %q", in, info.Size(), info.ModTime().UTC(), recipe))
	return filepath.Join(s.cache, fmt.Sprintf("%x", key[:16])+cacheEntry)
}

// restore fills an empty directory from an entry of the cache, and tells whether it did. Otherwise
// the directory is to be emptied.
func (s *Server) restore(entry, dir string) bool {
	file, err := os.Open(entry)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	if size, err := verify(file); err != nil || s.unpack(io.LimitReader(file, size), dir) != nil {
		return false
	}
	_ = os.Chtimes(entry, time.Time{}, time.Now()) //nolint:forbidigo // the age of a file
	return true
}

// verify compares the checksum at the end of an entry with what is before, whose size it returns.
// It leaves the file at its beginning.
func verify(file *os.File) (size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	size = info.Size() - crc32.Size
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if _, err := io.CopyN(sum, file, size); err != nil {
		return 0, errors.Join(errTorn, err)
	}
	trailer, err := io.ReadAll(file)
	if err != nil || !bytes.Equal(trailer, sum.Sum(nil)) {
		return 0, errors.Join(errTorn, err)
	}
	_, err = file.Seek(0, io.SeekStart)
	return size, err
}

// unpack follows no link out of the directory, which is the server's user's.
func (s *Server) unpack(from io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	archive := tar.NewReader(bufio.NewReaderSize(from, 1<<20))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.unpackFile(root, header, archive)
		}
		if err != nil {
			return err
		}
	}
}

func (s *Server) unpackFile(root *os.Root, header *tar.Header, content io.Reader) error {
	name := filepath.Clean(header.Name)
	if header.Typeflag == tar.TypeDir {
		return errors.Join(root.Mkdir(name, 0o700), root.Lchown(name, s.user.uid, s.user.gid))
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Chown(s.user.uid, s.user.gid), file.Close())
}

// keep puts data that was just made into the cache. It returns no error, because the cache only saves
// time: it may be read-only.
func keep(entry, dir string) {
	if entry == "" || os.MkdirAll(filepath.Dir(entry), 0o700) != nil {
		return
	}
	file, err := os.CreateTemp(filepath.Dir(entry), "*"+cachePart)
	if err != nil {
		return
	}
	err = errors.Join(pack(file, dir), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), entry) // a reader sees the whole entry or none
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	tidy(filepath.Dir(entry))
}

// pack writes a directory and a checksum.
func pack(to io.Writer, dir string) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	buffer := bufio.NewWriterSize(io.MultiWriter(to, sum), 1<<20)
	archive := tar.NewWriter(buffer)
	if err := errors.Join(archive.AddFS(os.DirFS(dir)), archive.Close(), buffer.Flush()); err != nil {
		return err
	}
	_, err := to.Write(sum.Sum(nil))
	return err
}

// tidy removes the entries that were not used for longest, and what dead processes left.
func tidy(dir string) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var entries []fs.FileInfo
	for _, file := range files {
		info, err := file.Info()
		switch {
		case err != nil: // another process has removed it
		case strings.HasSuffix(info.Name(), cacheEntry):
			entries = append(entries, info)
		case strings.HasSuffix(info.Name(), cachePart) && time.Since(info.ModTime()) > abandoned:
			_ = os.Remove(filepath.Join(dir, info.Name()))
		}
	}
	slices.SortFunc(entries, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, old := range entries[min(cacheKept, len(entries)):] {
		_ = os.Remove(filepath.Join(dir, old.Name()))
	}
}
