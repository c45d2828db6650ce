package deploy_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The arguments of the script are the command that it runs, here a shell that ignores the packages behind them.
func TestACheckForVulnerabilitiesThatReachedNoDatabaseSaysSo(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]string{
		"echo No vulnerabilities found.":                                         "",
		"echo Vulnerability 1; exit 3":                                           "",
		"echo 'govulncheck: fetching vulnerabilities: no such host' >&2; exit 1": "nothing was checked: the database at ",
	} {
		out, err := exec.Command("../vulncheck.sh", "sh", "-c", says, "sh").CombinedOutput()
		if failed := strings.Contains(says, "exit"); failed != (err != nil) {
			t.Errorf("%s: %v", says, err)
		}
		if got := string(out); strings.Contains(got, "nothing was checked") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: %s", says, got)
		}
	}
}
