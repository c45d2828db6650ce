package sql

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// The texts that servers return, as they were seen. Some are shortened.
func TestAnEngineIsKnownByWhatItSays(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]string{
		// PostgreSQL as built by Debian, Alpine, Aurora and RDS, Neon and one team; then the signs
		// of a plain server.
		"PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14) 12.2.0, 64-bit": "",
		"PostgreSQL 17.10 on x86_64-pc-linux-musl, compiled by gcc (Alpine 15.2.0) 15.2.0, 64-bit":                            "",
		"PostgreSQL 16.4 on aarch64-unknown-linux-gnu, compiled by aarch64-unknown-linux-gnu-gcc (GCC) 9.5.0, 64-bit":         "",
		"PostgreSQL 17.5 (6bc9ef8) on aarch64-unknown-linux-gnu, compiled by gcc (Debian 12.2.0-14+deb12u1) 12.2.0, 64-bit":   "",
		"PostgreSQL 19devel on x86_64-pc-linux-gnu, compiled by clang version 19.1.0, 64-bit":                                 "",
		"": "",

		"CockroachDB CCL v26.2.5 (x86_64-pc-linux-gnu, built 2026/07/28 18:56:00, go1.25.5)":                                                        "CockroachDB",
		"CockroachDB OSS v20.1.0 (x86_64-unknown-linux-gnu, built 2020/05/05 00:07:18, go1.13.9)":                                                   "CockroachDB",
		"PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 16.0.6":                                                   "YugabyteDB",
		"PostgreSQL 15.12-YB-2026.1.0.1-b0 on x86_64-pc-linux-gnu, compiled by clang version 21.1.1 (https://github.com/yugabyte/llvm-project.git)": "YugabyteDB",
		"PostgreSQL 9.4.26 (Greenplum Database 6.25.3 build commit:367edc6b4dfd909fe38fc288ade9e294d74e3f9a) on x86_64-unknown-linux-gnu":           "Greenplum",
		"PostgreSQL 12.12 (Greenplum Database 7.4.0 build commit:27de6dc6d00607a5630a41fd2c0ad489f40e2ad4) on x86_64-pc-linux-gnu":                  "Greenplum",
		"PostgreSQL 12 (MatrixDB 5.2.1+community) (Greenplum Database 7.0.0+dev.21200.gc9be2875939 build commit:c9be2875) on x86_64-pc-linux-gnu":   "YMatrix",
		"PostgreSQL 14.4 (Cloudberry Database 1.2.0 build commit:5b5ae3f8aa638786f01bbd08307b6474a1ba1997) on x86_64-pc-linux-gnu":                  "Cloudberry",
		"PostgreSQL 14.4 (Apache Cloudberry 2.0.0-incubating build 1) on aarch64-unknown-linux-gnu, compiled by gcc (GCC) 11.5.0 20240719":          "Cloudberry",
		"(openGauss 5.0.0 build a07d57c3) compiled at 2023-03-29 03:09:38 commit 0 last mr":                                                         "openGauss",
		"PostgreSQL 9.2.4 (openGauss-lite 5.0.3 build 89d144c2) compiled at":                                                                        "openGauss",
		"(GaussDB Kernel V500R002C00 build fab4f5ea) compiled at 2021-10-24 11:58:09 commit 3086 last mr 6592 release":                              "GaussDB",
		"PostgreSQL 9.5 on x86_64-unknown-linux-gnu (Materialize 26.36.0)":                                                                          "Materialize",
		"PostgreSQL 13.14.0-RisingWave-3.0.2 (391c3a16ef26d0cd86d1236c9b7c122a9a27fb1e)":                                                            "RisingWave",
		"view sys.iam_pg_role_mappings":   "Aurora DSQL",
		"extension aurora_limitless_fdw":  "Aurora PostgreSQL Limitless Database",
		"extension bdr extension plpgsql": "EDB Postgres Distributed",
	} {
		err := refuseEngine(says)
		refused, ok := errors.AsType[*EngineError](err)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q is refused: %v", says, err)
		case want != "" && (!ok || refused.Name != want):
			t.Errorf("%q: %v, want %s", says, err, want)
		}
	}
}

func TestThePageOfEnginesListsEveryRefusedEngine(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/databases.md")
	if err != nil {
		t.Fatal(err)
	}
	_, refused, _ := strings.Cut(string(page), "\n### Refused\n")
	refused, _, _ = strings.Cut(refused, "\n### ")
	for _, e := range engines {
		if !strings.Contains(refused, "\n| "+e.name+" |") {
			t.Errorf("%s has no line", e.name)
		}
	}
}
