package cmd

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/prescient-go/prescient/cmd/doctor"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/jobs/egress"
)

// queryView is a query that was checked, as JSON.
type queryView struct {
	Job      string `json:"job"`
	Database string `json:"database"` // empty: that of the jobs
	Problem  string `json:"problem"`  // empty: none
}

// eventsProblem returns the problem with the file's directory or the address that events go to; empty: none, or they go
// elsewhere.
func (a *App) eventsProblem() string {
	to, err := url.Parse(a.Config().Events.Destination.Reveal())
	if err == nil && (to.Scheme == "http" || to.Scheme == "https") {
		return a.forbidden(fmt.Sprintf("events.destination (%s)", a.origin("events.destination")), to)
	}
	if err != nil || to.Scheme != "file" {
		return ""
	}
	dir := filepath.Dir(to.Path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Sprintf("events.destination (%s) is a file in %s, which is no directory: no event is published until this user can write to such a directory",
			a.origin("events.destination"), dir)
	}
	return ""
}

// forbidden returns an error text if events.allowed_networks forbids the address of a URL. Empty:
// it does not, or the host is a name.
func (a *App) forbidden(what string, to *url.URL) string {
	if egress.CheckHost(to, a.Config().Events.AllowedNetworks) == nil {
		return ""
	}
	return fmt.Sprintf("%s is at %s, a private or special address that events.allowed_networks does not have: nothing is sent there. Add the address to events.allowed_networks",
		what, to.Hostname())
}

// forbiddenServices returns a text for each URL of http_jobs whose address events.allowed_networks
// forbids.
func (a *App) forbiddenServices() []string {
	texts := []string{}
	for _, job := range a.Config().HTTPJobs {
		to, err := url.Parse(job.URL.Reveal())
		if err != nil {
			continue // loading the settings reports this
		}
		if text := a.forbidden("the service of job "+job.Name, to); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// examineEvents finds a missing directory of events.destination, and addresses that events.allowed_networks forbids.
func (a *App) examineEvents() (list []doctor.Finding) {
	if problem := a.eventsProblem(); problem != "" {
		list = append(list, doctor.Finding{
			Name: "events", Severity: doctor.Action, What: problem, Do: "create the directory, allow the address, or correct events.destination",
		})
	}
	for _, problem := range a.forbiddenServices() {
		list = append(list, doctor.Finding{
			Name: "http_jobs", Severity: doctor.Action, What: problem, Do: "allow the address, or correct the url of the job",
		})
	}
	return list
}

// triedQueries checks for each query of sql_jobs whether it can run.
func (a *App) triedQueries(ctx context.Context) []queryView {
	queries, release := a.queries()
	defer release()
	views := []queryView{}
	for i, err := range checkQueries(ctx, queries) {
		job := a.Config().SQLJobs[i]
		view := queryView{Job: job.Name, Database: job.Database.String()}
		if err != nil {
			view.Problem = err.Error()
		}
		views = append(views, view)
	}
	return views
}

// examineQueries returns a finding for each query that cannot run.
func (a *App) examineQueries(tried []queryView) (list []doctor.Finding) {
	for _, q := range tried {
		if q.Problem != "" {
			list = append(list, doctor.Finding{
				Name: "sql_jobs", Severity: doctor.Action, What: q.String(),
				Do: "correct the entry, and try it with: " + a.self() + " doctor. Until then its checks fail",
			})
		}
	}
	return list
}

func (v queryView) String() string {
	text := fmt.Sprintf("job %s, on %s: ", v.Job, cmp.Or(v.Database, "the database of the jobs"))
	if v.Problem == "" {
		return text + "its query can run"
	}
	return text + strings.Map(plain.Printable, v.Problem)
}
