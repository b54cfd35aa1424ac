package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/agent"
)

// Blobs stores the bytes of files outside the logs that name them, per session and by their [Digest].
type Blobs interface {
	// PutBlob keeps bytes for a session under their digest, which it returns; the ones
	// that are there already stay. They last when it returns, so that an event that is
	// appended afterwards never names bytes that are missing. It returns an
	// [agent.ErrConflict] when the lease is no longer the current one. The store does not
	// keep the slice.
	PutBlob(ctx context.Context, key Key, lease Lease, data []byte) (digest string, err error)
	// Blob returns the bytes of a digest that were put for a session, or for one that it
	// is a fork of, before the events end that the two share. The error is
	// [agent.ErrNoFile] if there are none. The slice is shared: it must not be changed.
	Blob(ctx context.Context, key Key, digest string) ([]byte, error)
}

const digestPrefix = "sha256:"

// Digest returns the name of bytes: "sha256:" and 64 hexadecimal digits.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// IsDigest reports whether a text has the form of a [Digest].
func IsDigest(s string) bool {
	sum, ok := strings.CutPrefix(s, digestPrefix)
	return ok && len(sum) == 2*sha256.Size && strings.Trim(sum, "0123456789abcdef") == ""
}

// NoBlob returns the error for a digest whose bytes the store does not have for a session. It is [agent.ErrNoFile].
func NoBlob(key Key, digest string) error {
	return fmt.Errorf("session %s has no bytes %.80q: %w", key, digest, agent.ErrNoFile)
}

// WholeBlob returns bytes that were read from a store, or an error if they do not match the digest. Stores call it.
func WholeBlob(key Key, digest string, data []byte) ([]byte, error) {
	if Digest(data) != digest {
		return nil, fmt.Errorf("session %s: the bytes %.80q are damaged: restore them from a backup", key, digest)
	}
	return data, nil
}
