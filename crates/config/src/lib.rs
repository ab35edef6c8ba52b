//! What scenarios and configurations have in common: source documents with overrides and errors
//! that name line and remedy, quantities with units, policies, and files read up to a limit.
#![forbid(unsafe_code)]

pub mod bounded;
pub mod policy;
pub mod quantity;
pub mod source_document;
