package pack_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/pack"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// FuzzReader reads any bytes as any values. What could be read is never more than there was.
func FuzzReader(f *testing.F) {
	for _, d := range sessiontest.Payloads() {
		b, err := pack.Payload(pack.Texts(pack.Int(nil, 3), []string{"a", ""}), d)
		require.NoError(f, err)
		f.Add(string(b), []byte{1, 7, 9})
	}
	f.Fuzz(func(t *testing.T, data string, as []byte) {
		r, left := pack.NewReader(data), len(data)
		for _, kind := range as {
			size := 0
			switch kind % 10 {
			case 0:
				r.Int64()
			case 1:
				r.Int()
			case 2:
				require.GreaterOrEqual(t, r.Position(), int64(0))
			case 3:
				size = r.Count()
			case 4:
				size = len(r.Text())
			case 5:
				size = len(r.Bytes())
			case 6:
				r.Bool()
			case 7:
				for _, s := range r.Texts() {
					size += 1 + len(s)
				}
			case 8:
				if at := r.Time(); !at.IsZero() {
					require.Equal(t, at, pack.NewReader(string(pack.Time(nil, at))).Time())
				}
			case 9:
				pack.PayloadOf[event.Data](r)
			}
			require.LessOrEqual(t, size, left)
			require.LessOrEqual(t, r.Left(), left)
			left = r.Left()
		}
		if r.Err() != nil {
			require.Zero(t, r.Left())
			require.Error(t, r.Done())
		}
	})
}
