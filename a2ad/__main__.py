from a2ad.cli import main

main()
