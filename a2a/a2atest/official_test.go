package a2atest_test

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2aserver/push"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// officialKit names the folder of a checkout of a2aproject/a2a-tck, branch 1.0-dev; the file
// of what is expected was written with its commit 357c4a8. The kit's packages are installed in
// .venv of that folder: python3 -m venv .venv && .venv/bin/pip install -e .
const officialKit = "ARBOR_A2A_KIT"

// TestOfficialKit runs the protocol's conformance kit against an agent of [kitAgent] and
// compares the tests that do not pass with testdata/official_kit.txt. Without a folder of the
// kit the test is skipped. If ARBOR_A2A_KIT_UPDATE is set, the test writes the file.
func TestOfficialKit(t *testing.T) {
	folder := os.Getenv(officialKit)
	if folder == "" {
		t.Skip(officialKit + " names no folder of the kit")
	}
	folder = must.Get(filepath.Abs(folder))
	url, _ := serveKit(t, a2aserver.WithPush(push.Options{AllowHTTP: true, AllowLoopback: true}))
	report := filepath.Join(t.TempDir(), "report.xml")
	kit := exec.CommandContext(t.Context(), filepath.Join(folder, ".venv", "bin", "python"),
		"-m", "pytest", "tests/compatibility", "-q", "--tb=short", "-p", "no:cacheprovider",
		"--sut-host="+url, "--webhook-host=127.0.0.1", "--junitxml="+report)
	kit.Dir = folder
	out, err := kit.CombinedOutput()
	require.FileExists(t, report, "the kit wrote no report: %v\n%s", err, out)
	got := readReport(t, report)
	const path = "testdata/official_kit.txt"
	if os.Getenv(officialKit+"_UPDATE") != "" {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(path))
	require.Equal(t, string(want), got, "%s", out)
}

// readReport returns the number of tests that passed, and the name of each other test with its
// result, one a line and sorted.
func readReport(t *testing.T, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(path))
	var report struct {
		Cases []struct {
			Class   string    `xml:"classname,attr"`
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct {
				Type string `xml:"type,attr"`
			} `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	require.NoError(t, xml.Unmarshal(data, &report))
	passed := 0
	var others []string
	for _, c := range report.Cases {
		result := ""
		switch {
		case c.Failure != nil, c.Error != nil:
			result = "failed"
		case c.Skipped != nil && c.Skipped.Type == "pytest.xfail":
			result = "expected to fail"
		case c.Skipped != nil:
			result = "skipped"
		default:
			passed++
			continue
		}
		others = append(others, result+": "+strings.TrimPrefix(c.Class, "tests.compatibility.")+"."+c.Name+"\n")
	}
	slices.Sort(others)
	return fmt.Sprintf("%d of %d passed\n%s", passed, len(report.Cases), strings.Join(others, ""))
}
