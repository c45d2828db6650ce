package deploy_test

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// stages parses the recipe of the image, and lets the linter of Docker say what it has against it.
func stages(t *testing.T) []instructions.Stage {
	t.Helper()
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := instructions.Parse(file.AST, linter.New(&linter.Config{
		Warn: func(rule, _, _, problem string, _ []parser.Range) { t.Errorf("%s: %s", rule, problem) },
	}))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// find returns the last command of a type in a stage.
func find[T instructions.Command](t *testing.T, stage instructions.Stage) (found T) {
	t.Helper()
	ok := false
	for _, command := range stage.Commands {
		if c, is := command.(T); is {
			found, ok = c, true
		}
	}
	if !ok {
		t.Fatalf("the stage from %s has no %T", stage.BaseName, found)
	}
	return found
}

func TestTheImageIsOneBinaryOfNobody(t *testing.T) {
	t.Parallel()
	list := stages(t)
	last := list[len(list)-1]
	if last.BaseName != "scratch" {
		t.Errorf("it is made from %s", last.BaseName)
	}
	if user := find[*instructions.UserCommand](t, last).User; user != "65532:65532" {
		t.Errorf("it runs as %s, and the pods as 65532", user)
	}
	if entry := find[*instructions.EntrypointCommand](t, last).CmdLine; len(entry) != 1 || entry[0] != "/app" {
		t.Errorf("its entrypoint is %q: the arguments of a pod come right after it", entry)
	}
}

// The command of the recipe builds an application's own binary here, which needs nothing of the image it is put into.
func TestTheBinaryOfTheImageNeedsNoFilesAndDoesNotTellWhereItWasBuilt(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	app := filepath.Join(t.TempDir(), "app")
	command := find[*instructions.RunCommand](t, stages(t)[0]).CmdLine[0]
	build := exec.Command("sh", "-c", strings.Replace(command, "/out/app", app, 1))
	build.Dir, build.Env = root, append(os.Environ(), "PACKAGE=./examples/orders")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	checkStatic(t, app)
	text, err := os.ReadFile(app)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(root)) {
		t.Errorf("it has %s in it", root)
	}
	info, err := buildinfo.ReadFile(app)
	if err != nil || info.Path != "github.com/prescient-go/prescient/examples/orders" {
		t.Error(info, err)
	}
	if os.Getuid() != 0 {
		t.Skip("the rest needs root, to lock it up with nothing but itself")
	}
	if err := os.Chmod(filepath.Dir(app), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := alone(app, strings.Fields("install crontab --width 30m --timezone Asia/Kathmandu --binary /app")...); err != nil || !strings.Contains(out, "15,45 * * * *  /app run") {
		t.Errorf("%v: %s", err, out)
	}
}

// checkStatic refuses a binary that is linked with libraries.
func checkStatic(t *testing.T, app string) {
	t.Helper()
	file, err := elf.Open(app)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for _, program := range file.Progs {
		if program.Type == elf.PT_INTERP || program.Type == elf.PT_DYNAMIC {
			t.Errorf("it is linked with libraries: %v", program.Type)
		}
	}
}
