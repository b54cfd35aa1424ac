package cassette

import (
	"net/http"
	"os"
)

// TB contains the methods of a testing.TB that [Test] uses.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Test returns a client whose requests are answered from a file. The test fails if a request was not recorded, or a
// recording was not requested. If the environment has ARBOR_RECORD=1, the requests go to the endpoint, and the file is
// written again.
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
			t.Errorf("%v (ARBOR_RECORD=1 records it again)", err)
		} else if n := p.Left(); n > 0 {
			t.Errorf("cassette %s: %d recordings were not requested (ARBOR_RECORD=1 records it again)", path, n)
		}
	})
	return &http.Client{Transport: p}
}
