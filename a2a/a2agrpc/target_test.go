package a2agrpc

import (
	"net"
	"testing"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/stretchr/testify/require"
)

func TestTargets(t *testing.T) {
	for raw, want := range map[string]target{
		"agents.example.com:8443":               {"agents.example.com:8443", true},
		"agents.example.com":                    {"agents.example.com:443", true},
		"dns:///agents.example.com:8443":        {"agents.example.com:8443", true},
		"dns:agents.example.com:8443":           {"agents.example.com:8443", true},
		"grpc://agents.example.com:8443":        {"agents.example.com:8443", true},
		"grpcs://127.0.0.1:8443":                {"127.0.0.1:8443", true},
		"https://agents.example.com/a2a/grpc":   {"agents.example.com:443", true},
		"HTTPS://ann:secret@agents.example.com": {"agents.example.com:443", true},
		"127.0.0.1:50051":                       {"127.0.0.1:50051", false},
		"localhost:50051":                       {"localhost:50051", false},
		"[::1]:50051":                           {"[::1]:50051", false},
		"http://127.0.0.1":                      {"127.0.0.1:80", false},
		"[2001:db8::1]:443":                     {"[2001:db8::1]:443", true},
	} {
		got, err := parseTarget(raw, false)
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
	for _, raw := range []string{"", ":443", "unix:///run/docker.sock", "unix:/run/docker.sock", "unix-abstract:x", "dns://8.8.8.8/agents.example.com:443", "xds:///x",
		"http://agents.example.com", "ipv4:1.2.3.4,5.6.7.8", "agents.example.com:0", "agents.example.com:99999", "agents.example.com:https", "passthrough:///x:1",
		"vsock:1:2", "]", "[a]:1", "ann:hunter2@x y", "file:///etc/passwd"} {
		_, err := parseTarget(raw, false)
		require.Error(t, err, raw)
		require.NotContains(t, err.Error(), "hunter2")
	}
	got := must.Get(parseTarget("http://agents.internal:50051", true))
	require.Equal(t, target{"agents.internal:50051", false}, got)
	got = must.Get(parseTarget("https://agents.internal:50051", true))
	require.True(t, got.secure)
}

// An address that is taken names a host and a port, and nothing else.
func FuzzTargets(f *testing.F) {
	for _, raw := range []string{"a.example:443", "dns:///a.example", "https://u:p@a.example/x?y#z", "[::1]:1", "unix:/x"} {
		f.Add(raw, true)
	}
	f.Fuzz(func(t *testing.T, raw string, plain bool) {
		got, err := parseTarget(raw, plain)
		if err != nil {
			return
		}
		host, port, err := net.SplitHostPort(got.address)
		require.NoError(t, err)
		require.NotEmpty(t, host)
		require.NotEmpty(t, port)
		require.NotContains(t, host, "/")
		again := must.Get(parseTarget(got.url().String(), true))
		require.Equal(t, got, again)
	})
}
