package cmd

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/install"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/jobs"
)

// installed has a value for each text that a file names.
func installed(daemon bool) install.Setup {
	return install.Setup{
		Name: "prescient", Binary: "/usr/bin/prescient", Config: factory.UsualConfig, Width: 15 * time.Minute,
		WidthFrom: "--width", Image: "registry.example.com/prescient:1", Secret: "prescient", Replicas: 2, Daemon: daemon,
	}
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

// containers returns those of the manifests that are printed.
func containers(t *testing.T, daemon bool) []container {
	t.Helper()
	file, err := install.Kubernetes(installed(daemon))
	if err != nil {
		t.Fatal(err)
	}
	var list []container
	for decoder := yaml.NewDecoder(strings.NewReader(file.Text)); ; {
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
	for daemon, want := range map[bool]int{false: 3, true: 2} {
		list := containers(t, daemon)
		if len(list) != want {
			t.Fatalf("daemon %t: %d containers, want %d", daemon, len(list), want)
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

func TestEachPodOfAnIndexedJobHasAShardThatTheSettingsAccept(t *testing.T) {
	t.Parallel()
	s := installed(false)
	s.Shards = 3
	file, err := install.Kubernetes(s)
	if err != nil {
		t.Fatal(err)
	}
	number := func(key string) int {
		found := regexp.MustCompile(key + `: (\d+)`).FindStringSubmatch(file.Text)
		if found == nil {
			t.Fatalf("no %s in\n%s", key, file.Text)
		}
		n, _ := strconv.Atoi(found[1])
		return n
	}
	shard := regexp.MustCompile(`--shard=(\S+)\]`).FindStringSubmatch(file.Text)
	if strings.Contains(file.Text, "\n      backoffLimit: 4") || number("backoffLimitPerIndex") != 4 {
		t.Errorf("a store that is down ends the pods of the other shards:\n%s", file.Text)
	}
	if n := number("completions"); shard == nil || n != s.Shards || number("parallelism") != n {
		t.Fatalf("%d shards in\n%s", s.Shards, file.Text)
	}
	for i := range number("completions") {
		var fs pflag.FlagSet
		config.RunFlags(&fs)
		value := strings.ReplaceAll(shard[1], "$(JOB_COMPLETION_INDEX)", strconv.Itoa(i))
		if err := fs.Set("shard", value); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(&fs); err != nil {
			t.Error(err)
		}
	}
}

func TestTheUnitsSayWhatThisBinaryUnderstands(t *testing.T) {
	t.Parallel()
	var commands []string
	for _, daemon := range []bool{false, true} {
		files, err := install.Systemd(installed(daemon))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, start := range regexp.MustCompile(`(?m)^ExecStart=\S+ (.*)$`).FindAllStringSubmatch(file.Text, -1) {
				args := strings.Fields(start[1])
				understood(t, args)
				commands = append(commands, args[0])
			}
		}
	}
	if slices.Sort(commands); !slices.Equal(commands, []string{"daemon", "run", "status"}) {
		t.Errorf("they start %q", commands)
	}
}
