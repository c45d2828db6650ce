package doctorcmd

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/prescient-go/prescient/cmd/doctor"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/jobs/egress"
)

// eventsProblem returns the problem with the file's directory or the address that events go to; empty: none, or they go
// elsewhere.
func eventsProblem(f *factory.Factory) string {
	to, err := url.Parse(f.Config().Events.Destination.Reveal())
	if err == nil && (to.Scheme == "http" || to.Scheme == "https") {
		return forbidden(f, fmt.Sprintf("events.destination (%s)", f.Origin("events.destination")), to)
	}
	if err != nil || to.Scheme != "file" {
		return ""
	}
	dir := filepath.Dir(to.Path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Sprintf("events.destination (%s) is a file in %s, which is no directory: "+
			"no event is published until this user can write to such a directory", f.Origin("events.destination"), dir)
	}
	return ""
}

// forbidden returns an error text if events.allowed_networks forbids the address of a URL. Empty:
// it does not, or the host is a name.
func forbidden(f *factory.Factory, what string, to *url.URL) string {
	if egress.CheckHost(to, f.Config().Events.AllowedNetworks) == nil {
		return ""
	}
	return fmt.Sprintf("%s is at %s, a private or special address that events.allowed_networks does not have: "+
		"nothing is sent there. Add the address to events.allowed_networks", what, to.Hostname())
}

// forbiddenServices returns a text for each URL of http_jobs whose address events.allowed_networks
// forbids.
func forbiddenServices(f *factory.Factory) []string {
	texts := []string{}
	for _, job := range f.Config().HTTPJobs {
		to, err := url.Parse(job.URL.Reveal())
		if err != nil {
			continue // loading the settings reports this
		}
		if text := forbidden(f, "the service of job "+job.Name, to); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// examineEvents finds a missing directory of events.destination, and addresses that events.allowed_networks forbids.
func examineEvents(f *factory.Factory) (list []doctor.Finding) {
	if problem := eventsProblem(f); problem != "" {
		list = append(list, doctor.Finding{
			Name: "events", Severity: doctor.Action, What: problem,
			Do: "create the directory, allow the address, or correct events.destination",
		})
	}
	for _, problem := range forbiddenServices(f) {
		list = append(list, doctor.Finding{
			Name: "http_jobs", Severity: doctor.Action, What: problem, Do: "allow the address, or correct the url of the job",
		})
	}
	return list
}

// examineQueries returns a finding for each query that cannot run.
func examineQueries(f *factory.Factory, tried []checks.Tried) (list []doctor.Finding) {
	for _, q := range tried {
		if q.Problem != "" {
			list = append(list, doctor.Finding{
				Name: "sql_jobs", Severity: doctor.Action, What: q.String(),
				Do: "correct the entry, and try it with: " + f.Self() + " doctor. Until then its checks fail",
			})
		}
	}
	return list
}
