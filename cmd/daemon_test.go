package cmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// manifest is what the tests look at of a Kubernetes object: its containers, wherever they are.
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

// containers returns those of the manifests in a file of deploy.
func containers(t *testing.T, file string) []container {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	var list []container
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
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
	if code := app.Run(t.Context(), append(args, "--help")); code != Done || !strings.Contains(out.String(), " "+args[0]+" [flags]") {
		t.Errorf("%v: exit code %d\n%s%s", args, code, &log, &out)
	}
}

func TestTheManifestsSayWhatThisBinaryUnderstands(t *testing.T) {
	for file, want := range map[string]int{"daemon.yaml": 1, "cronjob.yaml": 2} {
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

func TestTheUnitIsOneThatSystemdAndThisBinaryUnderstand(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/prescient.service")
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=(\S+) (.*)$`).FindStringSubmatch(string(text))
	if start == nil {
		t.Fatal("no ExecStart")
	}
	understood(t, strings.Fields(start[2]))

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("the rest needs systemd-analyze")
	}
	binary, err := os.Executable() // it looks whether the program is there
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "prescient.service")
	if err := os.WriteFile(unit, bytes.ReplaceAll(text, []byte(start[1]), []byte(binary)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", unit).CombinedOutput()
	if err != nil || strings.Contains(string(out), unit) {
		t.Errorf("%v\n%s", err, out)
	}
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// serve runs a daemon until the test ends, and returns where it listens.
func serve(t *testing.T) (url string) {
	t.Helper()
	t.Setenv("PRESCIENT_DATABASE_URL", pgtest.URL(t))
	var log syncBuffer
	app := New(jobs.NewRegistry())
	app.Out, app.Err = io.Discard, &log
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan Code, 1)
	go func() { ended <- app.Run(ctx, []string{"daemon", "--listen", "127.0.0.1:0"}) }()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != Done {
			t.Errorf("exit code %d\n%s", code, &log)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if address := regexp.MustCompile(`msg=listening address=(\S+)`).FindStringSubmatch(log.String()); address != nil {
			return "http://" + address[1]
		}
	}
	t.Fatalf("it does not listen\n%s", &log)
	return ""
}

func TestADaemonAnswersTheProbesOfItsManifest(t *testing.T) {
	url := serve(t)
	c := containers(t, "daemon.yaml")[0]
	for _, path := range []string{c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path} {
		answer := 0
		for deadline := time.Now().Add(20 * time.Second); answer != http.StatusOK; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d", path, answer)
			}
			answer, _ = ask(t, http.MethodGet, url+path, "", "")
		}
	}
	if answer, _ := ask(t, http.MethodGet, url+"/schedules", "", ""); answer != http.StatusNotFound {
		t.Errorf("without daemon.token, /schedules: %d", answer)
	}
}

// ask sends a request and returns the status and the body of the answer.
func ask(t *testing.T, method, url, token, body string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

func TestADaemonServesSchedulesToWhoKnowsItsToken(t *testing.T) {
	const token = "a-token-for-this-test"
	t.Setenv("PRESCIENT_DAEMON_TOKEN", token)
	url := serve(t)
	for _, wrong := range []string{"", "another-token-altogether"} {
		if status, text := ask(t, http.MethodGet, url+"/schedules", wrong, ""); status != http.StatusUnauthorized {
			t.Errorf("with the token %q: %d %s", wrong, status, text)
		}
	}
	report := `{"id": "report-42", "crontab": "0 9 * * mon-fri", "timezone": "Europe/Berlin"}`
	if status, text := ask(t, http.MethodPost, url+"/schedules", token, report); status != http.StatusCreated {
		t.Errorf("create: %d %s", status, text)
	}
	if status, text := ask(t, http.MethodGet, url+"/schedules", token, ""); status != http.StatusOK || !strings.Contains(text, `"report-42"`) {
		t.Errorf("list: %d %s", status, text)
	}
	if status, text := ask(t, http.MethodGet, url+"/healthz", "", ""); !strings.Contains(text, `"next"`) {
		t.Errorf("/healthz: %d %s", status, text)
	}
}
