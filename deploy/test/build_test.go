package deploy_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// builder is buildah with a store of its own, and a checkout to build from.
type builder struct {
	t           *testing.T
	dir, source string
}

func newBuilder(t *testing.T) *builder {
	t.Helper()
	if _, err := exec.LookPath("buildah"); err != nil || os.Getuid() != 0 {
		t.Skip("this needs root, and a builder of images: apt-get install buildah")
	}
	b := &builder{t, t.TempDir(), t.TempDir()}
	checkout(t, b.source)
	return b
}

// run needs no privilege but root's: no overlay, and a chroot instead of a container.
func (b *builder) run(args ...string) {
	b.t.Helper()
	store := []string{"--storage-driver", "vfs", "--root", filepath.Join(b.dir, "root"), "--runroot", filepath.Join(b.dir, "run")}
	build := exec.Command("buildah", append(store, args...)...)
	build.Dir = b.source
	build.Env = append(os.Environ(), "BUILDAH_ISOLATION=chroot", "TMPDIR="+b.dir)
	if out, err := build.CombinedOutput(); err != nil {
		b.t.Fatalf("buildah %s: %v\n%s", args[0], err, out)
	}
}

// golang stands in for the image of Go's makers, which would have to be fetched: it has nothing but certificates, and sees this
// machine's Go and its modules. It returns the flags that let it.
func (b *builder) golang() (volumes []string) {
	b.t.Helper()
	env := map[string]string{}
	out, err := exec.Command("go", "env", "-json", "GOROOT", "GOMODCACHE", "GOCACHE").Output()
	if err := errors.Join(err, json.Unmarshal(out, &env)); err != nil {
		b.t.Fatal(err)
	}
	download := exec.Command("go", "mod", "download")
	download.Dir = "../.."
	if out, err := download.CombinedOutput(); err != nil {
		b.t.Skipf("modules cannot be fetched: %s", out)
	}
	text, err := os.ReadFile("../Dockerfile")
	version := regexp.MustCompile(`(?m)^ARG GO_VERSION=(\S+)$`).FindSubmatch(text)
	if err != nil || version == nil || !strings.HasPrefix(runtime.Version(), "go"+string(version[1])) {
		b.t.Fatalf("%v: the recipe takes Go %s, and this is %s", err, version, runtime.Version())
	}
	certificates, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		b.t.Skip("this needs certificates: apt-get install ca-certificates")
	}
	dir := filepath.Join(b.dir, "golang")
	recipe := fmt.Sprintf("FROM scratch\nCOPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt\nCOPY tmp /tmp/\n"+
		"ENV PATH=%s/bin:/usr/bin:/bin GOMODCACHE=/go/pkg/mod GOCACHE=/go/cache GOPROXY=off GOTOOLCHAIN=local\n", env["GOROOT"])
	err = errors.Join(os.MkdirAll(filepath.Join(dir, "tmp"), 0o755), os.WriteFile(filepath.Join(dir, "tmp", ".keep"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, "ca-certificates.crt"), certificates, 0o644), os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(recipe), 0o600))
	if err != nil {
		b.t.Fatal(err)
	}
	b.run("bud", "--tag", "docker.io/library/golang:"+string(version[1]), dir)
	for _, path := range []string{"/usr", "/bin", "/lib", "/lib64", env["GOROOT"]} {
		if _, err := os.Stat(path); err == nil {
			volumes = append(volumes, "--volume", path+":"+path+":ro")
		}
	}
	return append(volumes, "--volume", env["GOMODCACHE"]+":/go/pkg/mod:ro", "--volume", env["GOCACHE"]+":/go/cache")
}

// image is the content of an image.
type image struct {
	Config struct {
		User       string
		Entrypoint []string
		Cmd        []string
		Env        []string
	} `json:"config"`
	files map[string]int64 // their modes
	root  string           // where they are
}

// unpack reads an image that was built.
func (b *builder) unpack(tag string) (i image) {
	b.t.Helper()
	dir := filepath.Join(b.dir, "image")
	b.run("push", tag, "dir:"+dir)
	var manifest struct {
		Config struct{ Digest string }
		Layers []struct{ Digest string }
	}
	read := func(name string, v any) {
		b.t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, strings.TrimPrefix(name, "sha256:")))
		if err := errors.Join(err, json.Unmarshal(text, v)); err != nil {
			b.t.Fatal(err)
		}
	}
	read("manifest.json", &manifest)
	read(manifest.Config.Digest, &i)
	i.files, i.root = map[string]int64{}, filepath.Join(b.dir, "files")
	for _, layer := range manifest.Layers {
		b.unpackLayer(&i, filepath.Join(dir, strings.TrimPrefix(layer.Digest, "sha256:")))
	}
	return i
}

func (b *builder) unpackLayer(i *image, path string) {
	b.t.Helper()
	file, err := os.Open(path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		b.t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			b.t.Fatal(err)
		}
		if head.Typeflag == tar.TypeDir {
			continue
		}
		i.files[head.Name] = head.Mode
		target := filepath.Join(i.root, head.Name)
		content, err := io.ReadAll(archive)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, content, 0o600), os.Chmod(target, head.FileInfo().Mode()))
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// The recipe as it stands makes an image of the binary that the archives have.
func TestTheImageThatIsBuiltHasWhatABinaryNeedsAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newBuilder(t)
	volumes := b.golang()
	b.run(append(append([]string{"bud", "--pull-never", "--file", "deploy/Dockerfile", "--tag", "prescient"}, volumes...), ".")...)
	i := b.unpack("prescient")
	if diff := cmp.Diff([]string{"app", "etc/ssl/certs/ca-certificates.crt", "licenses/LICENSE"}, slices.Sorted(maps.Keys(i.files))); diff != "" {
		t.Error(diff)
	}
	for name, mode := range i.files {
		if mode&0o6022 != 0 || mode&0o004 == 0 {
			t.Errorf("%s has mode %o", name, mode)
		}
	}
	if i.Config.User != "65532:65532" || !slices.Equal(i.Config.Entrypoint, []string{"/app"}) || len(i.Config.Cmd) > 0 {
		t.Errorf("%+v", i.Config)
	}
	for _, variable := range i.Config.Env {
		if !strings.HasPrefix(variable, "PATH=") {
			t.Errorf("its environment has %s", variable)
		}
	}
	checkCertificates(t, filepath.Join(i.root, "etc/ssl/certs/ca-certificates.crt"))
	app := filepath.Join(i.root, "app")
	checkStatic(t, app)
	if binary, err := os.ReadFile(app); err != nil || !bytes.Equal(binary, release(t, b.source)) {
		t.Errorf("its binary is not the one of a release: %v", err)
	}
	for line, want := range map[string]string{
		"--version": ", schema ",
		"install crontab --width 30m --timezone Asia/Kathmandu --binary /app": "15,45 * * * *  /app run", // zones are in the binary
	} {
		if out, err := alone(app, strings.Fields(line)...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s", line, err, out)
		}
	}
}

func checkCertificates(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
		n++
	}
	if n < 20 {
		t.Errorf("%d certificates", n)
	}
}

// alone runs a binary as the user of the image, where there is nothing but what is beside it.
func alone(app string, args ...string) (string, error) {
	command := exec.Command("/app", args...)
	command.Dir, command.Env = "/", []string{}
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: filepath.Dir(app), Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	out, err := command.CombinedOutput()
	return string(out), err
}
