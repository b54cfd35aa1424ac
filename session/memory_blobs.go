package session

import (
	"bytes"
	"context"
	"math"
)

// memoryBlob is a file's bytes, and the length of the log when they were stored.
type memoryBlob struct {
	seq  int64
	data []byte
}

// PutBlob implements [Blobs].
func (m *Memory) PutBlob(ctx context.Context, key Key, lease Lease, data []byte) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	digest, copied := Digest(data), bytes.Clone(data)
	s := m.session(key)
	if s == nil {
		return "", LeaseLost(key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.row.holds(&lease) {
		return "", LeaseLost(key)
	}
	if _, ok := s.blobs[digest]; !ok {
		if s.blobs == nil {
			s.blobs = make(map[string]memoryBlob)
		}
		s.blobs[digest] = memoryBlob{s.row.Head.Seq, copied}
	}
	return digest, nil
}

// Blob implements [Blobs].
func (m *Memory) Blob(ctx context.Context, key Key, digest string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	before := int64(math.MaxInt64)
	for s := m.session(key); s != nil; s = s.past.of {
		s.mu.Lock()
		b, ok := s.blobs[digest]
		s.mu.Unlock()
		if ok && b.seq < before {
			return WholeBlob(key, digest, b.data)
		}
		if s.past == nil {
			break
		}
		before = min(before, s.past.seq)
	}
	return nil, NoBlob(key, digest)
}
