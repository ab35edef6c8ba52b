//! Structs to which new versions add fields are `#[non_exhaustive]`: other crates begin with the
//! defaults, and change what they want.

macro_rules! with {
    ($($name:ty),*) => {$(
        impl $name {
            /// This after a change.
            #[must_use]
            pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
                change(&mut self);
                self
            }
        }
    )*};
}
pub(crate) use with;
