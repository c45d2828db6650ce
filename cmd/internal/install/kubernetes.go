package install

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"text/template"
	"time"

	"go.yaml.in/yaml/v3"
)

// manifests are the templates of the chart, in printing order.
var manifests = []string{"account.yaml", "network.yaml", "migrate.yaml", "run.yaml", "daemon.yaml"}

// Chart returns the files of a Helm chart, whose values are those of the setup.
func Chart(s Setup) ([]File, error) {
	values, err := s.values()
	if err != nil {
		return nil, err
	}
	var files []File
	err = fs.WalkDir(texts, "chart", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(texts, name)
		if path.Base(name) == "values.yaml" {
			text = values
		}
		files = append(files, File{strings.TrimPrefix(name, "chart/"), string(text)})
		return err
	})
	return files, err
}

// KubernetesName returns the name of a release's objects, or its beginning: NAME-prescient. An
// application that is called NAME has its own objects and pods.
func KubernetesName(release string) string {
	if strings.Contains(release, suffix) {
		return release
	}
	return release + "-" + suffix
}

const suffix = "prescient"

// Kubernetes returns the manifests that Helm would make of the chart for a release with the setup's
// name. It returns ErrWidth for CronJobs if slots do not all begin at a full minute.
func Kubernetes(s Setup) (File, error) {
	text, err := s.values()
	if err != nil {
		return File{}, err
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		return File{}, fmt.Errorf("read the values of the chart: %w", err)
	}
	t, err := likeHelm()
	if err != nil {
		return File{}, err
	}
	data := map[string]any{"Values": values, "Release": map[string]any{"Name": s.Name}}
	parts := []string{
		fmt.Sprintf("# Printed by %s install kubernetes: slots of %s (says %s).\n", cmp.Or(s.Program, s.Name), s.Slots(),
			s.WidthFrom),
	}
	for _, name := range manifests {
		var b strings.Builder
		if err := t.ExecuteTemplate(&b, name, data); err != nil {
			return File{}, fmt.Errorf("write %s: %w", name, err)
		}
		if text := strings.TrimSpace(b.String()); text != "" {
			parts = append(parts, text+"\n")
		}
	}
	name := KubernetesName(s.Name)
	if s.Daemon {
		name += "-daemon"
	}
	return File{name + ".yaml", strings.Join(parts, "---\n")}, nil
}

// values returns the values.yaml of the chart.
func (s Setup) values() ([]byte, error) {
	if err := s.checkName(); err != nil {
		return nil, err
	}
	if name := KubernetesName(s.Name); len(name) > maxLabel {
		return nil, fmt.Errorf("the name %q: want at most %d letters: give a shorter one by --name", name, maxLabel)
	}
	s.Shards = max(s.Shards, 1)
	if !s.Daemon && (s.Width < time.Minute || s.Width%time.Minute != 0) {
		return nil, fmt.Errorf("slots of %s: %w", s.Slots(), ErrWidth)
	}
	t, err := template.ParseFS(texts, "chart/values.yaml")
	if err != nil {
		return nil, fmt.Errorf("parse the values of the chart: %w", err)
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct {
		Setup
		Minutes int
	}{s, int(s.Width / time.Minute)})
	return b.Bytes(), err
}

// likeHelm parses the templates of the chart with the functions of Helm that they use.
func likeHelm() (*template.Template, error) {
	t := template.New("")
	t.Funcs(template.FuncMap{
		"list":     func(v ...any) []any { return v },
		"int":      func(n int) int { return n },
		"mod":      func(n, m int) int { return n % m },
		"div":      func(n, m int) int { return n / m },
		"quote":    strconv.Quote,
		"contains": func(part, text string) bool { return strings.Contains(text, part) },
		"fail":     func(text string) (string, error) { return "", errors.New(text) },
		"nindent": func(n int, text string) string {
			return strings.ReplaceAll("\n"+text, "\n", "\n"+strings.Repeat(" ", n))
		},
		"toYaml": func(v any) (string, error) {
			var b strings.Builder
			enc := yaml.NewEncoder(&b)
			enc.SetIndent(2)
			err := enc.Encode(v)
			return strings.TrimSuffix(b.String(), "\n"), err
		},
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := t.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
	})
	return t.ParseFS(texts, "chart/templates/*")
}
