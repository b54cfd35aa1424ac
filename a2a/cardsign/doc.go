// Package cardsign signs agent cards and verifies their signatures: JSON Web Signatures (RFC 7515) over the canonical
// form (RFC 8785) of a card, as specified in A2A 1.0, section 8.4.
//
//	signer, err := cardsign.NewSigner(key, cardsign.WithKeyID("2026-01"))
//	err = signer.Sign(card)
//
//	verifier, err := cardsign.NewVerifier(cardsign.Key{ID: "2026-01", Public: public})
//	err = verifier.Verify(ctx, document)
//
// The specification signs empty required fields; the SDKs for JavaScript and Python omit everything that is empty. If
// that makes a difference, a [Signer] creates one signature for each form, and a [Verifier] accepts either. A signature
// of the second form does not cover empty fields: a third party may have removed an empty description, or a security
// requirement or scheme that consists only of its name.
//
// The package never fetches a key: it passes the address of a signature's key set (jku) only to the caller's lookup.
package cardsign
