package a2a_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/agentarbor/arbor/a2a"
)

// FuzzAddress: no address of a peer is a panic, and an error about one does not repeat a
// password that stands in it.
func FuzzAddress(f *testing.F) {
	for _, address := range []string{"https://example.com", "https://ann:sk-secret-1@example.com", "http://[::1]:1/card.json", "http://%zz", "file:///etc/passwd", "ftp://ann:sk-secret-1@h",
		"//h", "https://ann:sk-secret-1@\x00", "https://ann:sk-secret-1@h:99999", "postgres://ann:sk-secret-1@h/db", "https://\u202e", "", " ", "https://h/\xff"} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		_, err := a2a.Remote("peer", address)
		if err == nil {
			return
		}
		if strings.Contains(address, "sk-secret-1") && strings.Contains(err.Error(), "sk-secret-1") {
			t.Fatalf("the error repeats what may be a secret: %v", err)
		}
		if u, bad := url.Parse(address); bad == nil && u.User != nil {
			if password, ok := u.User.Password(); ok && len(password) > 6 && strings.Contains(err.Error(), password) && !strings.Contains(u.Host+u.Path+u.Scheme+u.User.Username(), password) {
				t.Fatalf("the error repeats the password: %v", err)
			}
		}
	})
}
