package cassette

import (
	"net/http"
	"os"
)

// TB is what [Test] needs of a testing.TB.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Test returns a client for a test, whose requests are answered from a file. A request that was not
// recorded, and a recording that was not asked for, fail the test. Where the environment has
// ARBOR_RECORD=1 the requests go to the endpoint, and the file is written anew.
func Test(t TB, path string, opts ...Option) *http.Client {
	t.Helper()
	if os.Getenv("ARBOR_RECORD") == "1" {
		r, err := Record(path, nil)
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Errorf("%v", err)
			}
		})
		return &http.Client{Transport: r}
	}
	p, err := Replay(path, opts...)
	if err != nil {
		t.Fatalf("%v (ARBOR_RECORD=1 records it)", err)
	}
	t.Cleanup(func() {
		if err := p.Err(); err != nil {
			t.Errorf("%v (ARBOR_RECORD=1 records it anew)", err)
		} else if n := p.Left(); n > 0 {
			t.Errorf("cassette %s: %d recordings were not asked for (ARBOR_RECORD=1 records it anew)", path, n)
		}
	})
	return &http.Client{Transport: p}
}
