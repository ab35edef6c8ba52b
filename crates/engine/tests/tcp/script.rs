//! A scripted peer (packetdrill as Rust): by RFC section, the comment names the MUST.
