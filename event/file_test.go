package event_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
)

func TestNewFile(t *testing.T) {
	f, err := event.NewFile("a.png", "", []byte("\x89PNG\x0d\x0a\x1a\x0a"))
	require.NoError(t, err)
	require.Equal(t, &event.File{Name: "a.png", MediaType: "image/png", Size: 8}, f)
	_, err = event.NewFile("a", "not a type", nil)
	require.ErrorContains(t, err, `the file a has the invalid media type "not a type"`)
	for _, name := range []string{"", ".", "..", "a/b", `a\b`, "/etc/passwd", "a\nb", "a\x00", "\xff", " a", "a\u202eb", strings.Repeat("a", 256)} {
		_, err = event.NewFile(name, "text/plain", nil)
		require.ErrorContains(t, err, "the file name", "%q", name)
	}
}

func TestFileName(t *testing.T) {
	for in, want := range map[string]string{"a.txt": "a.txt", "../../etc/passwd": "passwd", `C:\x\y.doc`: "y.doc", "a/..": "other", "": "other", "x\x00\ny": "xy",
		"ä \u202eb": "ä b", "\xff": "other", strings.Repeat("ä", 200): strings.Repeat("ä", 127)} {
		require.Equal(t, want, event.FileName(in, "other"), "%q", in)
	}
}

func FuzzFileName(f *testing.F) {
	f.Add("../a\x00b ")
	f.Fuzz(func(t *testing.T, name string) {
		_, err := event.NewFile(event.FileName(name, "other"), "", nil)
		require.NoError(t, err)
	})
}

func TestFileInWords(t *testing.T) {
	for size, want := range map[int64]string{0: "0 bytes", 1: "1 byte", 999: "999 bytes", 1000: "1 kB", 12_499: "12 kB", 12_500_000: "13 MB", 7e12: "7000 GB"} {
		require.Equal(t, "a.pdf, application/pdf, "+want, (&event.File{Name: "a.pdf", MediaType: "application/pdf", Size: size}).String())
	}
}
