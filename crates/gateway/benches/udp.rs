//! See the function.

fn main() {
    tabane_gateway::udp::bench::run();
}
