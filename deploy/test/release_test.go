package deploy_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dist returns the directory into which make test-release has built a release.
func dist(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PRESCIENT_TEST_DIST")
	if dir == "" {
		t.Skip("make test-release builds a release, and tests it")
	}
	return dir
}

// matching returns the paths of the files of the release that match a pattern, of which there have to be so many.
func matching(t *testing.T, pattern string, want int) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dist(t), pattern))
	if err != nil || len(paths) != want {
		t.Fatalf("%s matches %q, want %d files: %v", pattern, paths, want, err)
	}
	return paths
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheReleaseHasAChecksumOfEachFile(t *testing.T) {
	t.Parallel()
	want := map[string]string{}
	for _, path := range slices.Concat(
		matching(t, "*.tar.gz", 4), matching(t, "*.deb", 2), matching(t, "*.rpm", 2), matching(t, "*.cdx.json", 4),
	) {
		sum := sha256.Sum256(readFile(t, path))
		want[filepath.Base(path)] = hex.EncodeToString(sum[:])
	}
	got := map[string]string{}
	for line := range strings.Lines(string(readFile(t, filepath.Join(dist(t), "checksums.txt")))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		got[name] = sum
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// content returns the files of an archive and their texts.
func content(t *testing.T, path string) map[string]string {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(readFile(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		text, readErr := io.ReadAll(archive)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		if head.Uname != "root" || head.Mode&0o022 != 0 || head.Mode&0o004 == 0 {
			t.Errorf("%s: %s belongs to %s and has mode %o", path, head.Name, head.Uname, head.Mode)
		}
		files[head.Name] = string(text)
	}
}

func TestTheArchivesOfTheReleaseHaveWhatATeamWithoutGoNeeds(t *testing.T) {
	t.Parallel()
	for _, path := range matching(t, "*.tar.gz", 4) {
		files := content(t, path)
		for _, name := range []string{
			"prescient", "LICENSE", "README.md", "CHANGELOG.md", "third-party-licenses.txt", "alerts.yaml", "dashboard.json",
			"man/man1/prescient.1", "man/man1/prescient-run.1",
			"completions/prescient.bash", "completions/prescient.fish", "completions/prescient.zsh",
		} {
			if files[name] == "" {
				t.Errorf("%s has no %s", path, name)
			}
		}
		info, err := buildinfo.Read(strings.NewReader(files["prescient"]))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range info.Deps {
			if !strings.Contains(files["third-party-licenses.txt"], "  "+m.Path+" "+m.Version+": ") {
				t.Errorf("%s has no licence of %s %s", path, m.Path, m.Version)
			}
		}
	}
}

func TestTheReleaseListsEachLinkedModule(t *testing.T) {
	t.Parallel()
	for _, path := range matching(t, "*.cdx.json", 4) {
		var bom struct {
			BOMFormat  string
			Components []struct{ Name, Version string }
		}
		if err := json.Unmarshal(readFile(t, path), &bom); err != nil || bom.BOMFormat != "CycloneDX" {
			t.Fatalf("%s: %q, %v", path, bom.BOMFormat, err)
		}
		got := map[string]string{}
		for _, c := range bom.Components {
			got[c.Name] = c.Version
		}
		name := strings.TrimSuffix(filepath.Base(path), ".cdx.json")
		info, err := buildinfo.Read(strings.NewReader(content(t, filepath.Join(dist(t), name+".tar.gz"))["prescient"]))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"std": info.GoVersion}
		for _, m := range info.Deps {
			want[m.Path] = m.Version
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// machine runs a script as root on an overlay of this machine's files, which is thrown away. systemctl only notes its
// arguments there, in /systemctl.log.
func machine(t *testing.T, script string, packages ...string) string {
	t.Helper()
	const prepare = `
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount --rbind /dev dev
mount --rbind /proc proc
rm -f usr/bin/prescient
rm -rf etc/prescient packages
mkdir -p packages run/systemd/system
script=$2
shift 2
cp "$@" packages
rm -f usr/bin/systemctl
printf '#!/bin/sh\necho "$@" >>/systemctl.log\n' >usr/bin/systemctl
chmod +x usr/bin/systemctl
: >systemctl.log
exec chroot . sh -euc "$script"
`
	args := slices.Concat([]string{"unshare", "--mount", "sh", "-euc", prepare, "sh", t.TempDir(), script}, packages)
	if os.Getuid() != 0 {
		args = append([]string{"sudo", "-n"}, args...)
		if err := exec.Command("sudo", "-n", "true").Run(); err != nil {
			t.Skip("this needs root, to mount an overlay")
		}
	}
	run := exec.Command(args[0], args[1:]...)
	run.Env = append(os.Environ(), "LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	var log bytes.Buffer
	run.Stderr = &log
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, &log)
	}
	return string(out)
}

// life installs, upgrades and removes the package of the release, and notes what each does. The manager of packages is
// called as INSTALL, UPGRADE and REMOVE.
const life = `
did() {
    echo "$1:" $(uniq /systemctl.log)
    : >/systemctl.log
}
INSTALL >&2
did install
prescient --version >&2
for unit in run.timer run.service check.service daemon.service; do
    systemd-analyze verify /usr/lib/systemd/system/prescient-$unit 2>&1 | grep prescient || true
done
# This writes nothing, and fails if a file is different.
prescient install systemd --binary /usr/bin/prescient --width 15m --write /usr/lib/systemd/system >&2
prescient install systemd --binary /usr/bin/prescient --width 15m --daemon --write /usr/lib/systemd/system >&2
for file in man/man1/prescient.1.gz man/man1/prescient-run.1.gz bash-completion/completions/prescient ZSH/_prescient \
    fish/vendor_completions.d/prescient.fish doc/prescient/copyright doc/prescient/third-party-licenses.txt; do
    test -s "/usr/share/$file" || echo "missing: $file"
done
find /etc -name '*prescient*'
echo 'run: {workers: 7}' >/etc/prescient/prescient.yaml
UPGRADE >&2
did upgrade
REMOVE >&2
did remove
find /usr/bin /usr/lib/systemd /usr/share -name '*prescient*'
cat /etc/prescient/prescient.yaml
`

func checkLife(t *testing.T, path string, names map[string]string) {
	t.Helper()
	script := life
	for name, command := range names {
		script = strings.ReplaceAll(script, name, command)
	}
	want := `install: daemon-reload
/etc/prescient
upgrade: daemon-reload
remove: disable --now prescient-run.timer prescient-daemon.service daemon-reload
run: {workers: 7}
`
	if diff := cmp.Diff(want, machine(t, script, path)); diff != "" {
		t.Error(diff)
	}
}

func TestTheDebOfTheReleaseStartsNothingAndKeepsTheSettings(t *testing.T) {
	t.Parallel()
	checkLife(t, matching(t, "*amd64.deb", 1)[0], map[string]string{
		"INSTALL": "dpkg --no-triggers -i /packages/*.deb",
		"UPGRADE": "dpkg --no-triggers -i /packages/*.deb",
		"REMOVE":  "dpkg --no-triggers -P prescient",
		"ZSH":     "zsh/vendor-completions",
	})
}

func TestTheRPMOfTheReleaseStartsNothingAndKeepsTheSettings(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("this needs rpm: apt-get install rpm")
	}
	checkLife(t, matching(t, "*x86_64.rpm", 1)[0], map[string]string{
		"INSTALL": "rpm --force-debian --nodeps -i /packages/*.rpm",
		"UPGRADE": "rpm --force-debian --nodeps -U --force /packages/*.rpm",
		"REMOVE":  "rpm --force-debian -e prescient",
		"ZSH":     "zsh/site-functions",
	})
}
