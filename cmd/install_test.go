package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/install"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/jobs"
)

var update = flag.Bool("update", false, "rewrite the files of deploy")

// deployed are the commands that print the files of a directory of deploy.
var deployed = []struct{ dir, command string }{
	{"cron.d", "install crontab --user prescient --binary /usr/local/bin/prescient --timezone Etc/UTC"},
	{"systemd", "install systemd --binary /usr/local/bin/prescient"},
	{"systemd", "install systemd --binary /usr/local/bin/prescient --daemon"},
	{"kubernetes", "install kubernetes --image registry.example.com/prescient:1"},
	{"kubernetes", "install kubernetes --image registry.example.com/prescient:1 --daemon"},
	{"helm", "install kubernetes --image registry.example.com/prescient:1 --helm"},
}

func TestTheFilesOfDeployAreWhatTheCommandsPrint(t *testing.T) {
	if _, err := os.Stat(factory.UsualConfig); err == nil {
		t.Skip("they would be printed for this machine's ", factory.UsualConfig)
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	want := map[string]string{}
	for _, d := range deployed {
		var out, log bytes.Buffer
		app := New(jobs.NewRegistry())
		app.Name, app.Out, app.Err = "prescient", &out, &log
		if code := app.Run(t.Context(), append(strings.Fields(d.command), "--width=15m", "--output=json")); code != Done {
			t.Fatalf("%s: exit code %d\n%s", d.command, code, &log)
		}
		var files []install.File
		if err := json.Unmarshal(out.Bytes(), &files); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			want[filepath.Join("..", "deploy", d.dir, file.Path)] = file.Text
		}
	}
	if *update {
		for path, text := range want {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := map[string]string{}
	for _, d := range deployed {
		for _, path := range files(t, filepath.Join("..", "deploy", d.dir)) {
			got[path] = read(t, path)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("make deploy rewrites deploy, but for a file that is not printed any more:\n%s", diff)
	}
}

// files returns the paths of all files below dir.
func files(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// manifest has the parts of a Kubernetes object that the tests look at: its containers, at any depth.
type manifest struct {
	Spec struct {
		podTemplate `yaml:",inline"`
		JobTemplate struct{ Spec podTemplate } `yaml:"jobTemplate"`
	}
}

type podTemplate struct {
	Template struct {
		Spec struct{ Containers []container }
	}
}

type container struct {
	Args           []string
	Env            []struct{ Name string }
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
}

type probe struct {
	HTTPGet struct{ Path string } `yaml:"httpGet"`
}

// containers returns those of the manifests in a file of deploy/kubernetes.
func containers(t *testing.T, file string) []container {
	t.Helper()
	text := read(t, filepath.Join("..", "deploy", "kubernetes", file))
	var list []container
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var m manifest
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, m.Spec.Template.Spec.Containers...)
		list = append(list, m.Spec.JobTemplate.Spec.Template.Spec.Containers...)
	}
}

// understood runs a command line as far as its help, which comes only after flags that exist.
func understood(t *testing.T, args []string) {
	t.Helper()
	var out, log bytes.Buffer
	app := New(jobs.NewRegistry())
	app.Out, app.Err = &out, &log
	if code := app.Run(t.Context(), append(args, "--help")); code != Done || !strings.Contains(out.String(), "[flags]\n\nExamples:\n") {
		t.Errorf("%v: exit code %d\n%s%s", args, code, &log, &out)
	}
}

func TestTheManifestsSayWhatThisBinaryUnderstands(t *testing.T) {
	for file, want := range map[string]int{"prescient.yaml": 3, "prescient-daemon.yaml": 2} {
		list := containers(t, file)
		if len(list) != want {
			t.Fatalf("%s has %d containers, want %d", file, len(list), want)
		}
		for _, c := range list {
			understood(t, c.Args)
			for _, variable := range c.Env {
				t.Setenv(variable.Name, "") // which Load warns about when no setting has that name
			}
		}
	}
	loaded, err := config.Load(nil)
	if err != nil || len(loaded.Warnings) > 0 {
		t.Errorf("%v, %v", loaded.Warnings, err)
	}
}

func TestTheUnitsSayWhatThisBinaryUnderstands(t *testing.T) {
	t.Parallel()
	var commands []string
	for _, path := range files(t, filepath.Join("..", "deploy", "systemd")) {
		for _, start := range regexp.MustCompile(`(?m)^ExecStart=\S+ (.*)$`).FindAllStringSubmatch(read(t, path), -1) {
			args := strings.Fields(start[1])
			understood(t, args)
			commands = append(commands, args[0])
		}
	}
	if slices.Sort(commands); !slices.Equal(commands, []string{"daemon", "run", "status"}) {
		t.Errorf("they start %q", commands)
	}
}
