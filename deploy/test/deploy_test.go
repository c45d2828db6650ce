// Package deploy_test holds what prescient install kubernetes prints against the types of Kubernetes and against Helm. It is a
// module of its own, so that neither is a dependency of prescient.
package deploy_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/prescient-go/prescient/cmd/internal/install"
)

// setups are one of each kind.
func setups() map[string]install.Setup {
	jobs := install.Setup{
		Name: "orders", Binary: "/orders", Width: 15 * time.Minute, WidthFrom: "--width", Image: "registry.example.com/orders:1",
		Secret: "orders-database", Replicas: 3, Ports: []int{443, 5432},
	}
	configured, daemon, configuredDaemon := jobs, jobs, jobs
	configured.Config, configured.Width = "prescient.yaml", 6*time.Hour
	daemon.Daemon, daemon.Width = true, 10*time.Second
	configuredDaemon.Daemon, configuredDaemon.Config = true, "orders.toml"
	return map[string]install.Setup{"jobs": jobs, "configured": configured, "daemon": daemon, "configured daemon": configuredDaemon}
}

// documents takes YAML apart, and leaves out what has only comments.
func documents(t *testing.T, text string) (list []string) {
	t.Helper()
	for part := range strings.SplitSeq("\n"+text, "\n---\n") {
		var v any
		if err := yaml.Unmarshal([]byte(part), &v); err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		if v != nil {
			list = append(list, part)
		}
	}
	return list
}

// object is a new one of a kind, of those that are printed.
func object(apiVersion, kind string) any {
	return map[string]any{
		"v1 ServiceAccount":                  new(corev1.ServiceAccount),
		"v1 Service":                         new(corev1.Service),
		"apps/v1 Deployment":                 new(appsv1.Deployment),
		"batch/v1 CronJob":                   new(batchv1.CronJob),
		"batch/v1 Job":                       new(batchv1.Job),
		"networking.k8s.io/v1 NetworkPolicy": new(networkingv1.NetworkPolicy),
		"policy/v1 PodDisruptionBudget":      new(policyv1.PodDisruptionBudget),
	}[apiVersion+" "+kind]
}

// objects decodes manifests strictly, and returns them by kind and name.
func objects(t *testing.T, text string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, document := range documents(t, text) {
		var head struct {
			APIVersion string
			Kind       string
			Metadata   struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatal(err)
		}
		o := object(head.APIVersion, head.Kind)
		if o == nil {
			t.Fatalf("an object of an unknown kind:\n%s", document)
		}
		if err := yaml.UnmarshalStrict([]byte(document), o); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		all[head.Kind+" "+head.Metadata.Name] = o
	}
	return all
}

func print(t *testing.T, s install.Setup) string {
	t.Helper()
	file, err := install.Kubernetes(s)
	if err != nil {
		t.Fatal(err)
	}
	return file.Text
}

// pods returns the template of the pods of an object; nil where it has none.
func pods(o any) *corev1.PodSpec {
	switch o := o.(type) {
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec
	case *batchv1.Job:
		return &o.Spec.Template.Spec
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	}
	return nil
}

func TestTheManifestsAreObjectsOfKubernetes(t *testing.T) {
	t.Parallel()
	common := []string{"Job orders-prescient-migrate", "NetworkPolicy orders-prescient", "ServiceAccount orders-prescient"}
	for name, s := range setups() {
		want := append([]string{"CronJob orders-prescient-catch-up", "CronJob orders-prescient-run"}, common...)
		if s.Daemon {
			want = append([]string{"Deployment orders-prescient", "PodDisruptionBudget orders-prescient", "Service orders-prescient"}, common...)
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(objects(t, print(t, s)))); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// labels returns those of the pods of an object; nil where it has none.
func labels(o any) map[string]string {
	switch o := o.(type) {
	case *batchv1.CronJob:
		return o.Spec.JobTemplate.Spec.Template.Labels
	case *batchv1.Job:
		return o.Spec.Template.Labels
	case *appsv1.Deployment:
		return o.Spec.Template.Labels
	}
	return nil
}

// selector returns what an object selects pods by; nil where it selects none.
func selector(t *testing.T, o any) kubelabels.Selector {
	t.Helper()
	by := &metav1.LabelSelector{}
	switch o := o.(type) {
	case *networkingv1.NetworkPolicy:
		by = &o.Spec.PodSelector
	case *corev1.Service:
		by.MatchLabels = o.Spec.Selector
	case *appsv1.Deployment:
		by = o.Spec.Selector
	case *policyv1.PodDisruptionBudget:
		by = o.Spec.Selector
	default:
		return nil
	}
	s, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An application that is called orders has pods of its own, perhaps more than one kind under one name.
func TestNoSelectorTakesInPodsOfAnotherApplication(t *testing.T) {
	t.Parallel()
	const name, component = "app.kubernetes.io/name", "app.kubernetes.io/component"
	others := []kubelabels.Set{{name: "orders"}, {name: "orders", component: "daemon"}, {name: "orders-prescient"}, {name: "orders-prescient", component: "web"}}
	for setup, s := range setups() {
		all := objects(t, print(t, s))
		selecting := 0
		for id, o := range all {
			by := selector(t, o)
			if by == nil {
				continue
			}
			selecting++
			for _, other := range others {
				if by.Matches(other) {
					t.Errorf("%s: %s takes in %v", setup, id, other)
				}
			}
			for pod, o := range all {
				pods := labels(o)
				_, every := all[id].(*networkingv1.NetworkPolicy)
				want := every || pods[component] == "daemon"
				if got := by.Matches(kubelabels.Set(pods)); pods != nil && got != want {
					t.Errorf("%s: %s and the pods of %s: %t, want %t", setup, id, pod, got, want)
				}
			}
		}
		if want := map[bool]int{false: 1, true: 4}[s.Daemon]; selecting != want {
			t.Errorf("%s: %d objects select pods, want %d", setup, selecting, want)
		}
	}
}

func TestNoPodMayDoMoreThanItMust(t *testing.T) {
	t.Parallel()
	for name, s := range setups() {
		for id, o := range objects(t, print(t, s)) {
			pod := pods(o)
			if pod == nil {
				continue
			}
			id = name + ": " + id
			if token := pod.AutomountServiceAccountToken; token == nil || *token {
				t.Errorf("%s has a token", id)
			}
			if links := pod.EnableServiceLinks; links == nil || *links {
				t.Errorf("%s gets variables of Services", id)
			}
			security := pod.SecurityContext
			if !*security.RunAsNonRoot || *security.RunAsUser == 0 || security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("%s runs as %+v", id, security)
			}
			for _, c := range pod.Containers {
				security := c.SecurityContext
				if *security.AllowPrivilegeEscalation || *security.Privileged || !*security.ReadOnlyRootFilesystem || !slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) {
					t.Errorf("%s may do %+v", id, security)
				}
				for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
					if list.Cpu().IsZero() || list.Memory().IsZero() {
						t.Errorf("%s has no bounds: %v", id, c.Resources)
					}
				}
			}
		}
	}
}

// A Job must end, and the slot is in its name.
func TestEveryJobEndsAndARunKnowsItsSlot(t *testing.T) {
	t.Parallel()
	all := objects(t, print(t, setups()["jobs"]))
	for id, o := range all {
		spec := batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(1))}
		switch o := o.(type) {
		case *batchv1.CronJob:
			spec = o.Spec.JobTemplate.Spec
			if *o.Spec.TimeZone != "Etc/UTC" || o.Spec.Schedule != "*/15 * * * *" {
				t.Errorf("%s: %s in %s", id, o.Spec.Schedule, *o.Spec.TimeZone)
			}
		case *batchv1.Job:
			spec = o.Spec
		}
		if spec.ActiveDeadlineSeconds == nil || *spec.ActiveDeadlineSeconds <= 0 {
			t.Errorf("%s may go on for ever", id)
		}
	}
	run := all["CronJob orders-prescient-run"].(*batchv1.CronJob)
	if run.Spec.ConcurrencyPolicy != batchv1.AllowConcurrent {
		t.Errorf("concurrencyPolicy %s: a long run costs the next slot", run.Spec.ConcurrencyPolicy)
	}
	if *run.Spec.JobTemplate.Spec.Completions != 3 || *run.Spec.JobTemplate.Spec.Parallelism != 3 {
		t.Errorf("%+v", run.Spec.JobTemplate.Spec)
	}
	env := pods(run).Containers[0].Env
	field := env[slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == "PRESCIENT_RUN_JOB_NAME" })].ValueFrom.FieldRef.FieldPath
	if field != "metadata.labels['"+batchv1.JobNameLabel+"']" {
		t.Errorf("the name of the Job is in %s", field)
	}
	if catchUp := all["CronJob orders-prescient-catch-up"].(*batchv1.CronJob); catchUp.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
		t.Errorf("concurrencyPolicy %s of catch-up", catchUp.Spec.ConcurrencyPolicy)
	}
}

// write writes the chart of a setup, and returns where.
func write(t *testing.T, s install.Setup) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "prescient")
	files, err := install.Chart(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		path := filepath.Join(dir, file.Path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(file.Text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// helm returns the output of helm template for a chart, or its error.
func helm(c *chart.Chart, release string, values map[string]any) (map[string]string, error) {
	options := chartutil.ReleaseOptions{Name: release, Namespace: "default", Revision: 1, IsInstall: true}
	data, err := chartutil.ToRenderValues(c, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, data)
}

func TestHelmMakesOfTheChartWhatIsPrinted(t *testing.T) {
	t.Parallel()
	for name, s := range setups() {
		c, err := loader.Load(write(t, s))
		if err != nil {
			t.Fatal(err)
		}
		files, err := helm(c, s.Name, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		var want []string
		for path, text := range files {
			if filepath.Ext(path) == ".yaml" {
				want = append(want, documents(t, text)...)
			}
		}
		got := documents(t, print(t, s))
		for _, list := range [][]string{want, got} {
			for i := range list {
				list[i] = strings.TrimSpace(list[i])
			}
			slices.Sort(list)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// lintErrors returns the errors of helm lint for the chart in dir with these values over its own.
func lintErrors(dir string, values map[string]any) error {
	result := lint.AllWithKubeVersion(dir, values, "default", &chartutil.DefaultCapabilities.KubeVersion)
	var problems []error
	for _, m := range result.Messages {
		if m.Severity >= support.WarningSev {
			problems = append(problems, m)
		}
	}
	return errors.Join(problems...)
}

func TestHelmLintHasNothingAgainstTheChart(t *testing.T) {
	t.Parallel()
	for name, s := range setups() {
		if err := lintErrors(write(t, s), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheChartRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	c, err := loader.Load(write(t, setups()["jobs"]))
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"widht":          "widht: 5",
		"daemon: true":   "width: 0",
		"/replicas":      "replicas: none",
		"/secret/config": "secret: {config: ../passwd}",
	} {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		if _, err := helm(c, "orders", values); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(want, "/")) {
			t.Errorf("%s: %v, want %s in it", text, err, want)
		}
	}
}

// What a team changes: tolerations, more memory, another width.
func TestTheChartTakesTheValuesOfATeam(t *testing.T) {
	t.Parallel()
	c, err := loader.Load(write(t, setups()["jobs"]))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	err = yaml.Unmarshal([]byte(`
width: 60
pod: {imagePullSecrets: [{name: registry}], nodeSelector: {disk: fast}}
resources: {limits: {memory: 1Gi}}`), &values)
	if err != nil {
		t.Fatal(err)
	}
	files, err := helm(c, "orders", values)
	if err != nil {
		t.Fatal(err)
	}
	run := objects(t, files["prescient/templates/run.yaml"])["CronJob orders-prescient-run"].(*batchv1.CronJob)
	pod := pods(run)
	got := fmt.Sprint(run.Spec.Schedule, pod.ImagePullSecrets, pod.NodeSelector, pod.Containers[0].Resources.Limits.Memory())
	if want := "0 * * * *[{registry}] map[disk:fast] 1Gi"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
