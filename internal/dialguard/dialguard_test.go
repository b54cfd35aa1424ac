package dialguard_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/internal/dialguard"
)

func TestKinds(t *testing.T) {
	for kind, addresses := range map[dialguard.Kind]string{
		dialguard.Public: "1.1.1.1 8.8.8.8 172.15.255.255 172.32.0.1 100.63.255.255 100.128.0.1 169.253.1.1 223.255.255.255 9.255.255.255 11.0.0.0 " +
			"::ffff:1.1.1.1 2606:4700::1111 64:ff9b::1.1.1.1 2002:101:101::1 2606:4700::5efe:1.1.1.1 fbff::1 2003::1",
		dialguard.Loopback: "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 64:ff9b::127.0.0.1 2002:7f00:1:: 2606:4700::5efe:127.0.0.1 2606:4700::200:5efe:127.0.0.1 ::1%lo",
		dialguard.Private: "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 100.127.255.255 fc00::1 fdff::1 fec0::1 ::ffff:10.1.2.3 64:ff9b::a00:1 " +
			"2002:c0a8:101::",
		dialguard.LinkLocal: "169.254.1.1 fe80::1 fe80::1%eth0 ::ffff:169.254.1.1 2002:a9fe:101::",
		dialguard.Metadata: "169.254.169.254 ::ffff:169.254.169.254 64:ff9b::169.254.169.254 2002:a9fe:a9fe:: fd00:ec2::254 fd20:ce::254 100.100.100.200 168.63.129.16 " +
			"fd00:ec2::254%eth0",
		dialguard.Multicast:   "224.0.0.1 239.255.255.255 ff02::1 ff02::1%eth0 64:ff9b::e000:1",
		dialguard.Unspecified: "0.0.0.0 :: ::ffff:0.0.0.0 64:ff9b::",
		dialguard.Reserved: "0.1.2.3 192.0.0.1 192.0.2.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 240.0.0.1 255.255.255.255 ::127.0.0.1 ::1.1.1.1 " +
			"::ffff:0:127.0.0.1 64:ff9b:1::7f00:1 100::1 2001::1 2001:0:7f00:1:: 2001:db8::1 3fff::1 5f00::1",
	} {
		for _, a := range strings.Fields(addresses) {
			addr := netip.MustParseAddr(a)
			require.Equal(t, kind, dialguard.KindOf(addr), a)
			err := dialguard.New().Control("tcp", netip.AddrPortFrom(addr, 80).String(), nil)
			if kind == dialguard.Public {
				require.NoError(t, err, a)
				continue
			}
			var refused *dialguard.Error
			require.ErrorAs(t, err, &refused, a)
			require.Equal(t, kind, refused.Kind)
			require.Contains(t, err.Error(), string(kind))
		}
	}
	require.Equal(t, dialguard.Reserved, dialguard.KindOf(netip.Addr{}))
}

func TestOptions(t *testing.T) {
	check := func(g *dialguard.Guard, addr string) error { return g.Check(netip.MustParseAddr(addr)) }
	loopback, private := dialguard.New(dialguard.AllowLoopback()), dialguard.New(dialguard.AllowPrivate())
	require.NoError(t, check(loopback, "127.0.0.1"))
	require.NoError(t, check(loopback, "::1"))
	require.Error(t, check(loopback, "10.0.0.1"))
	for _, a := range []string{"127.0.0.1", "10.0.0.1", "100.64.0.1", "fd12::1", "::ffff:192.168.0.1"} {
		require.NoError(t, check(private, a), a)
	}
	for _, a := range []string{"169.254.169.254", "fd00:ec2::254", "100.100.100.200", "fe80::1", "0.0.0.0", "224.0.0.1"} {
		require.Error(t, check(private, a), a)
	}
	some := dialguard.New(dialguard.AllowPrefix(netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fe80::/64")))
	require.NoError(t, check(some, "10.1.2.3"))
	require.NoError(t, check(some, "::ffff:10.1.2.3"))
	require.NoError(t, check(some, "fe80::1%eth0"))
	require.Error(t, check(some, "10.2.0.1"))
	for _, a := range []string{"", "localhost:80", "/run/docker.sock", "127.0.0.1", "[::1]"} {
		var refused *dialguard.Error
		require.ErrorAs(t, private.Control("unix", a, nil), &refused, a)
		require.False(t, refused.Address.IsValid())
	}
}

// However an address of IPv4 is dressed up as one of IPv6, it is no more public.
func TestEmbeddedAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v4 := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4"))
		kind := dialguard.KindOf(netip.AddrFrom4(v4))
		var mapped, nat64, sixTo4 [16]byte
		mapped[10], mapped[11] = 0xff, 0xff
		copy(nat64[:], []byte{0, 0x64, 0xff, 0x9b})
		copy(mapped[12:], v4[:])
		copy(nat64[12:], v4[:])
		copy(sixTo4[:], []byte{0x20, 0x02})
		copy(sixTo4[2:], v4[:])
		for _, b := range [][16]byte{mapped, nat64, sixTo4} {
			require.Equal(t, kind, dialguard.KindOf(netip.AddrFrom16(b)), netip.AddrFrom16(b))
		}
	})
}

// names is a resolver whose one name leads to other addresses with every look-up.
type names struct {
	net.PacketConn
	answers [][4]byte
	asked   atomic.Int32
}

func newNames(t *testing.T, answers ...string) *names {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	n := &names{PacketConn: conn}
	for _, a := range answers {
		n.answers = append(n.answers, netip.MustParseAddr(a).As4())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return n
}

func (n *names) serve() {
	buf := make([]byte, 1500)
	for {
		size, from, err := n.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:size]) != nil || len(m.Questions) != 1 {
			continue
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			i := min(int(n.asked.Add(1))-1, len(n.answers)-1)
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: n.answers[i]}}}
		}
		packed, err := m.Pack()
		if err == nil {
			_, _ = n.WriteTo(packed, from)
		}
	}
}

func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp4", n.LocalAddr().String())
	}}
}

// A name that leads inside is refused where it is dialed, also if it led elsewhere
// when it was looked up before.
func TestNamesThatLeadInside(t *testing.T) {
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Skip("no listener for all addresses of IPv4 can be had: ", err)
	}
	var served atomic.Int32
	srv := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }),
		ReadHeaderTimeout: time.Second}}
	srv.Start()
	defer srv.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)

	n := newNames(t, "127.0.0.1", "127.0.0.2")
	guard := dialguard.New(dialguard.AllowPrefix(netip.MustParsePrefix("127.0.0.1/32")))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: (&net.Dialer{Control: guard.Control, Resolver: n.resolver(), Timeout: 5 * time.Second}).DialContext}}
	get := func() error {
		resp, err := client.Get("http://rebinding.test:" + port)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	require.NoError(t, get(), "the first address is allowed")
	require.EqualValues(t, 1, served.Load())
	err = get()
	var refused *dialguard.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, dialguard.Loopback, refused.Kind)
	require.Equal(t, "127.0.0.2", refused.Address.String())
	require.EqualValues(t, 1, served.Load(), "nothing was sent")
	require.GreaterOrEqual(t, n.asked.Load(), int32(2))

	for _, host := range []string{"localhost:", "127.0.0.2:", "[::ffff:127.0.0.2]:", "[::1]:", "0.0.0.0:"} {
		conn, err := (&net.Dialer{Control: dialguard.New().Control}).Dial("tcp", host+port)
		if err == nil {
			_ = conn.Close()
		}
		require.True(t, errors.As(err, &refused), "%s: %v", host, err)
	}
}

func FuzzControl(f *testing.F) {
	for _, s := range []string{"127.0.0.1:80", "[::1%lo]:80", "[::ffff:10.0.0.1]:1", "1.1.1.1:443", "x", "[fe80::1%25eth0]:1", "[1::%]]:0"} {
		f.Add(s)
	}
	g := dialguard.New()
	f.Fuzz(func(t *testing.T, address string) {
		if g.Control("tcp", address, nil) != nil {
			return
		}
		host := strings.Trim(address[:strings.LastIndex(address, ":")], "[]")
		host, _, _ = strings.Cut(host, "%")
		plain := net.ParseIP(host)
		require.NotNil(t, plain, address)
		require.False(t, plain.IsLoopback() || plain.IsPrivate() || plain.IsUnspecified() || plain.IsMulticast() || plain.IsLinkLocalUnicast(), address)
	})
}
