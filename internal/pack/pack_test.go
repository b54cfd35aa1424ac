package pack_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/pack"
)

func TestBackAndForth(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
	var b []byte
	for _, n := range []int64{0, 1, -1, 63, 64, -65, math.MaxInt64, math.MinInt64} {
		b = pack.Int(b, n)
	}
	b = pack.Text(b, "")
	b = pack.Text(b, "ünï\x00")
	b = pack.Text(b, []byte{1, 2})
	b = pack.Bool(pack.Bool(b, true), false)
	b = pack.Time(pack.Time(b, at), time.Time{})
	b = pack.Texts(pack.Texts(b, nil), []string{"one", ""})
	r := pack.NewReader(string(b))
	for _, n := range []int64{0, 1, -1, 63, 64, -65, math.MaxInt64, math.MinInt64} {
		require.Equal(t, n, r.Int64())
	}
	require.Empty(t, r.Text())
	require.Equal(t, "ünï\x00", r.Text())
	require.Equal(t, []byte{1, 2}, r.Bytes())
	require.True(t, r.Bool())
	require.False(t, r.Bool())
	require.Equal(t, at, r.Time())
	require.True(t, r.Time().IsZero())
	require.Nil(t, r.Texts())
	require.Equal(t, []string{"one", ""}, r.Texts())
	require.NoError(t, r.Done())

	for n := range len(b) {
		r := pack.NewReader(string(b[:n]))
		for range 8 {
			r.Int64()
		}
		r.Text()
		r.Text()
		r.Text()
		r.Bool()
		r.Bool()
		r.Time()
		r.Time()
		r.Texts()
		r.Texts()
		require.Error(t, r.Done(), n)
	}
	r = pack.NewReader(string(b))
	r.Int64()
	require.NoError(t, r.Err())
	require.Error(t, r.Done(), "something is left")
}

func TestItems(t *testing.T) {
	r, read := pack.NewReader("\x06ab\x00\x00\x80"), 0
	for i := range r.Items() {
		require.Equal(t, read, i)
		read++
		r.Bool()
	}
	require.Equal(t, 1, read, "what follows the first that cannot be read is not looked at")
	require.Error(t, r.Err())
}

func TestWhatCannotBe(t *testing.T) {
	for name, read := range map[string]func(*pack.Reader){
		"\x02":         func(r *pack.Reader) { r.Bool() },
		"\x04":         func(r *pack.Reader) { r.Count() },
		"\x01\x01":     func(r *pack.Reader) { r.Count() },
		"\x01\x02":     func(r *pack.Reader) { r.Position() },
		"\x05abcd":     func(r *pack.Reader) { r.Text() },
		"\x80\x80\x80": func(r *pack.Reader) { r.Int64() },
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02": func(r *pack.Reader) { r.Int64() },
		"\x01\x00\x01": func(r *pack.Reader) { r.Time() },
	} {
		r := pack.NewReader(name)
		read(r)
		require.Error(t, r.Err(), "%q", name)
		require.Zero(t, r.Left())
		require.Zero(t, r.Int64())
		require.Empty(t, r.Text())
		require.False(t, r.Bool())
		require.Zero(t, r.Count())
	}
}

func TestName(t *testing.T) {
	require.Equal(t, `view "\u00fc" "b"`, pack.Name("view", "ü", "b"))
	require.Len(t, pack.Name("view", strings.Repeat("a", 248)), 255)
	require.Empty(t, pack.Name("view", strings.Repeat("a", 249)), "it is too long for a store")
}

func TestSum(t *testing.T) {
	require.Len(t, pack.Sum("a", "b"), 22)
	require.Equal(t, pack.Sum("a", "b"), pack.Sum("a", "b"))
	require.NotEqual(t, pack.Sum("ab"), pack.Sum("a", "b"))
	require.NotEqual(t, pack.Sum("a", "b"), pack.Sum("", "ab"))
}
