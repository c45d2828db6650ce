package main

import (
	"strings"
	"testing"
)

const (
	mit = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`
	gpl = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU General
Public License as published by the Free Software Foundation, either version 3 of the License, or (at your
option) any later version.

This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the
implied warranty of MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License
for more details.

You should have received a copy of the GNU General Public License along with this program. If not, see
<https://www.gnu.org/licenses/>.
`
)

// A binary may be passed on with these texts beside it, and without its source.
func TestEveryLinkedModuleHasALicenceThatAsksOnlyForItsText(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run([]string{"../../.."}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n  Go go1.", "\n  github.com/lib/pq v1.", ": MIT\n", ": Apache-2.0\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q", want)
		}
	}
}

func TestALicenceThatIsUnknownOrAsksForMoreIsAnError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"permissive":      {map[string]string{"LICENSE": mit}, ""},
		"with a notice":   {map[string]string{"LICENSE": mit, "NOTICE": "Made by us."}, ""},
		"copyleft":        {map[string]string{"COPYING": gpl}, "has licence GPL-3.0"},
		"a copyleft part": {map[string]string{"LICENSE": mit, "part/LICENSE": gpl}, "part/LICENSE has licence GPL-3.0"},
		"both in one":     {map[string]string{"LICENSE": mit + gpl}, "has licence GPL-3.0"},
		"unknown":         {map[string]string{"LICENSE": "Do what you like on Sundays."}, "no licence that is known"},
		"only a notice":   {map[string]string{"NOTICE": "Made by us."}, "has no licence"},
		"none":            {nil, "has no licence"},
	} {
		_, err := module{path: "example.com/m", version: "v1.0.0", files: test.files}.licenses()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestATextThatModulesShareIsPrintedOnce(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	files := map[string]string{"LICENSE": mit}
	if err := write(&out, []module{{"example.com/a", "v1.0.0", files}, {"example.com/b", "v2.0.0", files}}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "Permission is hereby granted"); n != 1 {
		t.Errorf("it is printed %d times", n)
	}
	for _, want := range []string{
		"  example.com/a v1.0.0: MIT\n  example.com/b v2.0.0: MIT\n", "example.com/a/LICENSE\nexample.com/b/LICENSE\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q", want)
		}
	}
}
